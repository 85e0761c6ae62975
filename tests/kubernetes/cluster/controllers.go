package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

// Controller is a process that works on the cluster through the first API server.
type Controller struct {
	*Process
	health string // an address that answers 200 when it is well
}

func newControllerManager(o Options, id identity, kubeconfig string) *Controller {
	port := o.Port + portControllerManager
	command := []string{o.binary("kube-controller-manager"),
		"--kubeconfig=" + kubeconfig,
		"--service-account-private-key-file=" + id.file("sa.key"),
		"--root-ca-file=" + id.file("ca.crt"),
		"--use-service-account-credentials=false",
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + filepath.Join(o.Dir, "controller-manager"),
		"--v=2",
	}
	return newController(o, "controller-manager", append(command, o.ControllerManagerFlags...),
		fmt.Sprintf("https://127.0.0.1:%d/healthz", port))
}

func newScheduler(o Options, kubeconfig string) *Controller {
	port := o.Port + portScheduler
	command := []string{o.binary("kube-scheduler"),
		"--kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + filepath.Join(o.Dir, "scheduler"),
		"--v=2",
	}
	return newController(o, "scheduler", append(command, o.SchedulerFlags...),
		fmt.Sprintf("https://127.0.0.1:%d/healthz", port))
}

// newKwok lives for all the nodes that carry kwok's annotation; see Nodes.
func newKwok(o Options, kubeconfig string) *Controller {
	address := fmt.Sprintf("127.0.0.1:%d", o.Port+portKwok)
	command := []string{o.binary("kwok"),
		"--kubeconfig=" + kubeconfig,
		"--config=" + o.binary("kwok-stages.yaml"),
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector=" + kwokAnnotation + "=fake",
		"--cidr=10.0.0.1/24",
		"--node-ip=127.0.0.1",
		"--node-lease-duration-seconds=40",
		"--server-address=" + address,
	}
	return newController(o, "kwok", append(command, o.KwokFlags...), "http://"+address+"/healthz")
}

func newController(o Options, name string, command []string, health string) *Controller {
	// Controllers end when they lose their lease, and whoever runs them has to start them again.
	return &Controller{Process: &Process{Name: name, Command: command, Log: o.log(name), Supervised: true}, health: health}
}

// Start starts the controller and waits until it is healthy.
func (c *Controller) Start(ctx context.Context) error {
	if err := c.Process.Start(); err != nil {
		return err
	}
	return c.AwaitHealthy(ctx, 3*time.Minute)
}

// AwaitHealthy waits until the controller says that it is well.
func (c *Controller) AwaitHealthy(ctx context.Context, patience time.Duration) error {
	// Their certificates are made by themselves at each start.
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	return Until(ctx, patience, 100*time.Millisecond, c.Name+" to be healthy", func() (bool, error) {
		response, err := client.Get(c.health)
		if err != nil {
			return false, err
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
}
