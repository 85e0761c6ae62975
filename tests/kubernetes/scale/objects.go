package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"vetch.invalid/trials/cluster"
)

const (
	replicas     = 50   // of a Deployment
	spacePods    = 2500 // of a namespace
	spaceConfigs = 10
	perService   = 4 // every so many Deployments one has a Service
)

func (r *run) namespaces() int        { return (r.Pods + spacePods - 1) / spacePods }
func (r *run) deployments() int       { return (r.Scheduled + replicas - 1) / replicas }
func (r *run) namespace(n int) string { return fmt.Sprintf("load-%d", n%r.namespaces()) }

// makeNamespace makes a namespace with a few objects that nobody touches again.
func (r *run) makeNamespace(ctx context.Context, n int) error {
	name := r.namespace(n)
	object := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	for n := range spaceConfigs {
		object := configMap(fmt.Sprintf("config-%d", n))
		if _, err := r.client.CoreV1().ConfigMaps(name).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	// Pods are refused until the controller manager has given the namespace its account.
	return cluster.Until(ctx, time.Minute, 200*time.Millisecond, "a service account", func() (bool, error) {
		_, err := r.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// configMap holds about 1 KiB.
func configMap(name string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"data": filler(900)}}
}

func filler(length int) string {
	text := make([]byte, length)
	for n := range text {
		text[n] = 'a' + byte(n*7%26)
	}
	return string(text)
}

func (r *run) makeDeployment(ctx context.Context, n int) error {
	name, namespace := fmt.Sprintf("deployment-%d", n), r.namespace(n)
	count := int32(min(replicas, r.Scheduled-n*replicas))
	labels := map[string]string{"app": name, "made": "scheduled"}
	_, err := r.client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &count,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
		},
	}, metav1.CreateOptions{})
	if err != nil || n%perService != 0 {
		return err
	}
	_, err = r.client.CoreV1().Services(namespace).Create(ctx, &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": name},
			Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	return err
}

// makePod makes a pod that is bound from the beginning, so that neither controllers nor the scheduler work for it.
func (r *run) makePod(ctx context.Context, n int) error {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", n), Labels: map[string]string{"app": "bound", "made": "bound"},
		},
		Spec: podSpec(),
	}
	pod.Spec.NodeName = fmt.Sprintf("node-%d", n%r.Nodes)
	_, err := r.client.CoreV1().Pods(r.namespace(n)).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// podSpec makes pods that take about 4 KiB in the store when they run, as those of Kubernetes' own load tests do.
func podSpec() v1.PodSpec {
	requests := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("10m"),
		v1.ResourceMemory: resource.MustParse("10Mi"),
	}
	return v1.PodSpec{Containers: []v1.Container{{
		Name: "container", Image: "registry.invalid/load/image:1.0",
		Env:       []v1.EnvVar{{Name: "SETTINGS", Value: filler(1200)}},
		Ports:     []v1.ContainerPort{{ContainerPort: 8080}},
		Resources: v1.ResourceRequirements{Requests: requests},
	}}}
}

// countList counts the objects of a list and those that it says are left out.
func countList(body []byte) (int, error) {
	var list struct {
		Metadata struct {
			RemainingItemCount int `json:"remainingItemCount"`
		} `json:"metadata"`
		Items []struct{} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, err
	}
	return len(list.Items) + list.Metadata.RemainingItemCount, nil
}
