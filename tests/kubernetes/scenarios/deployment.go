package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

// deployment creates a Deployment and its Service, scales it up, rolls it to another image, scales it down and deletes
// it. After each step exactly the right pods run, and the Service knows them.
func deployment(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "deployment")
	if err != nil {
		return err
	}
	d := deploymentPlay{w: w, namespace: name}
	if err := d.create(ctx, 10, "registry.invalid/app:1"); err != nil {
		return err
	}
	steps := []struct {
		replicas int32
		image    string
	}{{10, "registry.invalid/app:1"}, {20, "registry.invalid/app:1"}, {20, "registry.invalid/app:2"}, {3, "registry.invalid/app:2"}}
	for _, step := range steps {
		begun := time.Now()
		if err := d.become(ctx, step.replicas, step.image); err != nil {
			return err
		}
		if err := d.await(ctx, int(step.replicas), step.image); err != nil {
			return err
		}
		w.note("%d×%s %.1fs", step.replicas, step.image[len(step.image)-2:], time.Since(begun).Seconds())
	}
	return d.remove(ctx)
}

type deploymentPlay struct {
	w         *world
	namespace string
}

func (d deploymentPlay) create(ctx context.Context, replicas int32, image string) error {
	labels := map[string]string{"app": "app"}
	object := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: image}}},
			},
		},
	}
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec:       v1.ServiceSpec{Selector: labels, Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	client := d.w.clients[0]
	return d.w.try(ctx, "create deployment and service", func() error {
		_, err := client.AppsV1().Deployments(d.namespace).Create(ctx, object, metav1.CreateOptions{})
		if err := d.w.created(err); err != nil {
			return err
		}
		_, err = client.CoreV1().Services(d.namespace).Create(ctx, service, metav1.CreateOptions{})
		return d.w.created(err)
	})
}

// become asks for another number of pods or another image.
func (d deploymentPlay) become(ctx context.Context, replicas int32, image string) error {
	deployments := d.w.clients[0].AppsV1().Deployments(d.namespace)
	return d.w.try(ctx, "update deployment", func() error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			object, err := deployments.Get(ctx, "app", metav1.GetOptions{})
			if err != nil {
				return err
			}
			object.Spec.Replicas = &replicas
			object.Spec.Template.Spec.Containers[0].Image = image
			_, err = deployments.Update(ctx, object, metav1.UpdateOptions{})
			return err
		})
	})
}

// await waits until exactly so many pods exist, all of them running the image, and until the Service knows all of them.
func (d deploymentPlay) await(ctx context.Context, replicas int, image string) error {
	what := fmt.Sprintf("exactly %d running pods of %s and their endpoints", replicas, image)
	return d.w.until(ctx, 90*time.Second, what, func() (bool, error) {
		pods, err := d.w.clients[0].CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase != v1.PodRunning || pod.Spec.Containers[0].Image != image {
				return false, nil
			}
		}
		slices, err := d.w.clients[1].DiscoveryV1().EndpointSlices(d.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		endpoints := 0
		for _, slice := range slices.Items {
			endpoints += len(slice.Endpoints)
		}
		return len(pods.Items) == replicas && endpoints == replicas, nil
	})
}

// remove deletes the Deployment and waits until nothing of it is left, seen through both API servers.
func (d deploymentPlay) remove(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	err := d.w.try(ctx, "delete deployment", func() error {
		return d.w.deleted(d.w.clients[0].AppsV1().Deployments(d.namespace).Delete(ctx, "app",
			metav1.DeleteOptions{PropagationPolicy: &background}))
	})
	if err != nil {
		return err
	}
	return d.w.until(ctx, time.Minute, "the deployment's pods and replica sets to be gone", func() (bool, error) {
		for _, client := range d.w.clients {
			_, err := client.AppsV1().Deployments(d.namespace).Get(ctx, "app", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return false, err
			}
			pods, err := client.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{})
			if err != nil || len(pods.Items) > 0 {
				return false, err
			}
			sets, err := client.AppsV1().ReplicaSets(d.namespace).List(ctx, metav1.ListOptions{})
			if err != nil || len(sets.Items) > 0 {
				return false, err
			}
		}
		return true, nil
	})
}
