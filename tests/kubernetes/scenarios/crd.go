package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var (
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets = schema.GroupVersionResource{Group: "vetch.invalid", Version: "v1", Resource: "widgets"}
)

const definition = "widgets.vetch.invalid"

// customResources defines a kind, uses it through both API servers, deletes the definition with resources still there, and
// defines it again: nothing of the old ones may be left. Custom resources are stored as JSON, most others are not.
func customResources(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "crd")
	if err != nil {
		return err
	}
	first, err := dynamic.NewForConfig(w.APIServers[0].Config)
	if err != nil {
		return err
	}
	second, err := dynamic.NewForConfig(w.APIServers[1].Config)
	if err != nil {
		return err
	}
	p := widgetPlay{w, name, []dynamic.Interface{first, second}}
	if err := p.define(ctx); err != nil {
		return err
	}
	if err := p.use(ctx, 50); err != nil {
		return err
	}
	if err := p.undefine(ctx); err != nil {
		return err
	}
	if err := p.define(ctx); err != nil {
		return err
	}
	if err := p.awaitWidgets(ctx, 1, 0, ""); err != nil {
		return fmt.Errorf("after the definition was deleted: %w", err)
	}
	return p.undefine(ctx)
}

type widgetPlay struct {
	w         *world
	namespace string
	clients   []dynamic.Interface
}

func (p widgetPlay) define(ctx context.Context) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": definition},
		"spec": map[string]any{
			"group": widgets.Group,
			"scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
	err := p.w.try(ctx, "create the definition", func() error {
		_, err := p.clients[0].Resource(crds).Create(ctx, object, metav1.CreateOptions{})
		return p.w.created(err)
	})
	if err != nil {
		return err
	}
	return p.w.until(ctx, time.Minute, "both API servers to serve the new kind", func() (bool, error) {
		for _, client := range p.clients {
			if _, err := client.Resource(widgets).Namespace(p.namespace).List(ctx, metav1.ListOptions{}); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// use creates resources through the first API server, and changes spec and status through the second.
func (p widgetPlay) use(ctx context.Context, count int) error {
	for n := range count {
		widget := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "vetch.invalid/v1", "kind": "Widget",
			"metadata": map[string]any{"name": fmt.Sprintf("widget-%02d", n)},
			"spec":     map[string]any{"size": int64(n), "text": strings.Repeat("ä€ 😀", 100)},
		}}
		err := p.w.try(ctx, "create a widget", func() error {
			_, err := p.clients[0].Resource(widgets).Namespace(p.namespace).Create(ctx, widget, metav1.CreateOptions{})
			return p.w.created(err)
		})
		if err != nil {
			return err
		}
	}
	if err := p.awaitWidgets(ctx, 1, count, ""); err != nil {
		return err
	}
	for n := range count {
		name := fmt.Sprintf("widget-%02d", n)
		err := p.w.try(ctx, "change a widget", func() error {
			client := p.clients[1].Resource(widgets).Namespace(p.namespace)
			_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"text":"new"}}`), metav1.PatchOptions{})
			if err != nil {
				return err
			}
			_, err = client.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"done":true}}`), metav1.PatchOptions{}, "status")
			return err
		})
		if err != nil {
			return err
		}
	}
	return p.awaitWidgets(ctx, 0, count, "new")
}

// awaitWidgets lists once, consistently: what was acknowledged through one API server must be seen through the other.
func (p widgetPlay) awaitWidgets(ctx context.Context, server, count int, text string) error {
	return p.w.try(ctx, "list widgets", func() error {
		list, err := p.clients[server].Resource(widgets).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != count {
			return fmt.Errorf("API server %d lists %d widgets instead of %d", server, len(list.Items), count)
		}
		for n, widget := range list.Items {
			size, _, _ := unstructured.NestedInt64(widget.Object, "spec", "size")
			got, _, _ := unstructured.NestedString(widget.Object, "spec", "text")
			if size != int64(n) || text != "" && got != text {
				return fmt.Errorf("%s has size %d and text %q", widget.GetName(), size, got)
			}
		}
		return nil
	})
}

func (p widgetPlay) undefine(ctx context.Context) error {
	err := p.w.try(ctx, "delete the definition", func() error {
		return p.w.deleted(p.clients[0].Resource(crds).Delete(ctx, definition, metav1.DeleteOptions{}))
	})
	if err != nil {
		return err
	}
	return p.w.until(ctx, time.Minute, "definition and resources to be gone", func() (bool, error) {
		for _, client := range p.clients {
			_, err := client.Resource(crds).Get(ctx, definition, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return false, err
			}
			_, err = client.Resource(widgets).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
			if !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
}
