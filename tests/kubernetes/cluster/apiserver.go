package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// APIServer is one kube-apiserver.
type APIServer struct {
	*Process
	URL        string
	Kubeconfig string       // for kubectl and others
	Config     *rest.Config // for Go; without a limit of requests, except the server's
}

func newAPIServer(o Options, id identity, store *Store, n int) (*APIServer, error) {
	port := o.Port + portAPIServer + n
	name := fmt.Sprintf("apiserver-%d", n)
	kubeconfig, err := id.kubeconfig(name+".kubeconfig", port)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	command := []string{o.binary("kube-apiserver"),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		// Nobody connects to this address, but it may not be loopback, and every API server needs its own.
		fmt.Sprintf("--advertise-address=192.0.2.%d", n+1),
		"--cert-dir=" + filepath.Join(o.Dir, name),
		"--tls-cert-file=" + id.file("server.crt"),
		"--tls-private-key-file=" + id.file("server.key"),
		"--service-cluster-ip-range=10.96.0.0/12",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + id.file("sa.key"),
		"--service-account-signing-key-file=" + id.file("sa.key"),
		"--authorization-mode=Node,RBAC",
		"--token-auth-file=" + id.file("tokens.csv"),
		"--allow-privileged=true",
		"--v=2",
	}
	command = append(append(command, store.access...), o.apiServerFlags(n)...)
	env := []string{"KUBE_WATCHCACHE_CONSISTENCY_CHECKER=true"}
	if o.ConsistencyPeriod > 0 {
		env = append(env, "CONSISTENCY_CHECK_PERIOD="+o.ConsistencyPeriod.String())
	}
	return &APIServer{
		Process:    &Process{Name: name, Command: command, Env: env, Log: o.log(name)},
		URL:        config.Host,
		Kubeconfig: kubeconfig,
		Config:     config,
	}, nil
}

// Start starts the API server and waits until it is ready, which includes that all its caches are filled.
func (a *APIServer) Start(ctx context.Context) error {
	if err := a.Process.Start(); err != nil {
		return err
	}
	return a.AwaitReady(ctx, 5*time.Minute)
}

// AwaitReady waits until the API server says that it is ready.
func (a *APIServer) AwaitReady(ctx context.Context, patience time.Duration) error {
	return Until(ctx, patience, 100*time.Millisecond, a.Name+" to be ready", func() (bool, error) {
		if !a.Running() {
			return false, fmt.Errorf("it ended; see %s", a.Log)
		}
		_, err := a.get(ctx, "/readyz")
		return err == nil, err
	})
}

// Client is a client of this API server.
func (a *APIServer) Client() *kubernetes.Clientset { return kubernetes.NewForConfigOrDie(a.Config) }

// Metrics reads the API server's metrics.
func (a *APIServer) Metrics(ctx context.Context) (Metrics, error) {
	body, err := a.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(bytes.NewReader(body))
}

func (a *APIServer) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return get(ctx, a.Config, a.URL+path)
}

func get(ctx context.Context, config *rest.Config, url string) ([]byte, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.300s", url, response.Status, body.String())
	}
	return body.Bytes(), nil
}
