package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubelets lets three hollow kubelets join, which are the real kubelet's code over a runtime that only pretends, and runs a
// DaemonSet on all nodes. Then the kubelets end and their nodes are deleted.
func kubelets(ctx context.Context, w *world) error {
	const count = 3
	name, err := w.namespace(ctx, "kubelets")
	if err != nil {
		return err
	}
	if err := w.AddKubelets(0, count); err != nil {
		return err
	}
	defer func() {
		for _, kubelet := range w.Kubelets {
			kubelet.Stop(5 * time.Second)
		}
	}()
	if err := w.AwaitNodes(ctx, nodes+count, 90*time.Second); err != nil {
		return err
	}
	labels := map[string]string{"app": "daemon"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: v1.PodSpec{
					Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}},
					Containers:  []v1.Container{{Name: "daemon", Image: "registry.invalid/daemon:1"}},
				},
			},
		},
	}
	err = w.try(ctx, "create a DaemonSet", func() error {
		_, err := w.clients[0].AppsV1().DaemonSets(name).Create(ctx, set, metav1.CreateOptions{})
		return w.created(err)
	})
	if err != nil {
		return err
	}
	what := fmt.Sprintf("the DaemonSet to run on all %d nodes", nodes+count)
	err = w.until(ctx, 2*time.Minute, what, func() (bool, error) {
		set, err := w.clients[1].AppsV1().DaemonSets(name).Get(ctx, "daemon", metav1.GetOptions{})
		return err == nil && set.Status.NumberReady == nodes+count, err
	})
	if err != nil {
		return err
	}
	return w.removeKubelets(ctx, name)
}

func (w *world) removeKubelets(ctx context.Context, namespace string) error {
	err := w.try(ctx, "delete the DaemonSet", func() error {
		return w.deleted(w.clients[0].AppsV1().DaemonSets(namespace).Delete(ctx, "daemon", metav1.DeleteOptions{}))
	})
	if err != nil {
		return err
	}
	err = w.until(ctx, 2*time.Minute, "the DaemonSet's pods to be gone", func() (bool, error) {
		pods, err := w.clients[1].CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0, err
	})
	if err != nil {
		return err
	}
	for _, kubelet := range w.Kubelets {
		kubelet.Stop(5 * time.Second)
		err := w.try(ctx, "delete a node", func() error {
			return w.deleted(w.clients[0].CoreV1().Nodes().Delete(ctx, kubelet.Name, metav1.DeleteOptions{}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
