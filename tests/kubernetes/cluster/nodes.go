package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const kwokAnnotation = "kwok.x-k8s.io/node"

// AddNodes creates nodes named <prefix>-<number> for kwok to live for, from first on, some at a time.
func (c *Cluster) AddNodes(ctx context.Context, prefix string, first, count, atOnce int) error {
	nodes := c.APIServers[0].Client().CoreV1().Nodes()
	work := make(chan int)
	failures := make(chan error, atOnce)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for n := range work {
				_, err := nodes.Create(ctx, kwokNode(fmt.Sprintf("%s-%d", prefix, n)), metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					failures <- err
					return
				}
			}
		})
	}
	var err error
	for n := first; n < first+count && err == nil; n++ {
		select {
		case work <- n:
		case err = <-failures:
		}
	}
	close(work)
	workers.Wait()
	select {
	case err = <-failures:
	default:
	}
	return err
}

func kwokNode(name string) *v1.Node {
	room := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("32"),
		v1.ResourceMemory: resource.MustParse("256Gi"),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{kwokAnnotation: "fake", "node.alpha.kubernetes.io/ttl": "0"},
			Labels: map[string]string{
				"type":                   "kwok",
				"kubernetes.io/hostname": name,
				"kubernetes.io/os":       "linux",
				"kubernetes.io/arch":     "amd64",
				"kubernetes.io/role":     "agent",
			},
		},
		Status: v1.NodeStatus{Allocatable: room, Capacity: room},
	}
}

// AddKubelets starts hollow kubelets: the real kubelet's code over a runtime that only pretends. They are named
// kubelet-<number> and are among the cluster's processes.
func (c *Cluster) AddKubelets(first, count int) error {
	if first+count > mostKubelets {
		return fmt.Errorf("there are ports for %d kubelets", mostKubelets)
	}
	for n := first; n < first+count; n++ {
		name := fmt.Sprintf("kubelet-%d", n)
		process := &Process{Name: name, Log: c.options.log(name), Supervised: true, Command: []string{
			c.options.binary("kubemark"),
			"--morph=kubelet",
			"--name=" + name,
			"--kubeconfig=" + c.APIServers[0].Kubeconfig,
			"--cert-dir=" + filepath.Join(c.options.Dir, name),
			fmt.Sprintf("--kubelet-port=%d", c.options.Port+portKubelet+n),
			"--kubelet-read-only-port=0",
			"--use-host-image-service=false",
		}}
		if err := process.Start(); err != nil {
			return err
		}
		c.Kubelets = append(c.Kubelets, process)
	}
	return nil
}

// AwaitNodes waits until as many nodes are ready.
func (c *Cluster) AwaitNodes(ctx context.Context, count int, patience time.Duration) error {
	nodes := c.APIServers[0].Client().CoreV1().Nodes()
	return Until(ctx, patience, 200*time.Millisecond, fmt.Sprintf("%d ready nodes", count), func() (bool, error) {
		list, err := nodes.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		ready := 0
		for _, node := range list.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue {
					ready++
				}
			}
		}
		return ready >= count, nil
	})
}
