package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// namespaceFinalizer deletes a namespace that holds an object with a finalizer: everything else in it goes, the object and
// the namespace stay until the finalizer is taken away, and then nothing is left.
func namespaceFinalizer(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "finalizer")
	if err != nil {
		return err
	}
	if err := fillNamespace(ctx, w, name); err != nil {
		return err
	}
	core := w.clients[0].CoreV1()
	err = w.try(ctx, "delete namespace", func() error {
		return w.deleted(core.Namespaces().Delete(ctx, name, metav1.DeleteOptions{}))
	})
	if err != nil {
		return err
	}
	if err := awaitHeldNamespace(ctx, w, name); err != nil {
		return err
	}
	err = w.try(ctx, "take the finalizer away", func() error {
		_, err := core.ConfigMaps(name).Patch(ctx, "held", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return w.deleted(err)
	})
	if err != nil {
		return err
	}
	return w.until(ctx, time.Minute, "the namespace to be gone from both API servers", func() (bool, error) {
		for _, client := range w.clients {
			_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
}

func fillNamespace(ctx context.Context, w *world, name string) error {
	core := w.clients[0].CoreV1()
	for n := range 20 {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("free-%d", n)}
		err := w.try(ctx, "create objects", func() error {
			_, err := core.ConfigMaps(name).Create(ctx, &v1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
			if err := w.created(err); err != nil {
				return err
			}
			_, err = core.Secrets(name).Create(ctx, &v1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
			return w.created(err)
		})
		if err != nil {
			return err
		}
	}
	held := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"vetch.invalid/hold"}}}
	return w.try(ctx, "create an object with a finalizer", func() error {
		_, err := core.ConfigMaps(name).Create(ctx, held, metav1.CreateOptions{})
		return w.created(err)
	})
}

// awaitHeldNamespace waits until only the held object is left and the namespace says so, and sees that it stays like that.
func awaitHeldNamespace(ctx context.Context, w *world, name string) error {
	core := w.clients[1].CoreV1()
	err := w.until(ctx, time.Minute, "the namespace to wait for the finalizer alone", func() (bool, error) {
		maps, err := core.ConfigMaps(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		secrets, err := core.Secrets(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		namespace, err := core.Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		waits := false
		for _, condition := range namespace.Status.Conditions {
			waits = waits || condition.Type == v1.NamespaceFinalizersRemaining && condition.Status == v1.ConditionTrue
		}
		return len(maps.Items) == 1 && maps.Items[0].Name == "held" && len(secrets.Items) == 0 && waits, nil
	})
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	return w.try(ctx, "read the held namespace", func() error {
		namespace, err := core.Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil && namespace.Status.Phase != v1.NamespaceTerminating {
			return errors.New("the namespace is not terminating")
		}
		if err != nil {
			return err
		}
		_, err = core.ConfigMaps(name).Get(ctx, "held", metav1.GetOptions{})
		return err
	})
}
