package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Store is the one member that holds everything: vetch, or etcd for comparison.
type Store struct {
	*Process
	Data string // its data directory
	URL  string

	client *http.Client
	access []string // the flags by which an API server may talk to it
}

func newStore(o Options, id identity) (*Store, error) {
	data := filepath.Join(o.Dir, "store")
	url := fmt.Sprintf("http://127.0.0.1:%d", o.Port+portStore)
	if o.TLS {
		url = "https" + strings.TrimPrefix(url, "http")
	}
	peer := fmt.Sprintf("http://127.0.0.1:%d", o.Port+portStorePeer)
	command := []string{o.StoreBinary,
		"--name=default",
		"--data-dir=" + data,
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		// What kubeadm and others set; without it, quiet caches learn of new revisions every ten minutes.
		"--watch-progress-notify-interval=5s",
		"--quota-backend-bytes=8589934592",
	}
	s := &Store{Data: data, URL: url, client: http.DefaultClient, access: []string{"--etcd-servers=" + url}}
	if o.TLS {
		command = append(command,
			"--cert-file="+id.file("server.crt"),
			"--key-file="+id.file("server.key"),
			"--trusted-ca-file="+id.file("ca.crt"),
			"--client-cert-auth",
		)
		s.access = append(s.access,
			"--etcd-cafile="+id.file("ca.crt"),
			"--etcd-certfile="+id.file("client.crt"),
			"--etcd-keyfile="+id.file("client.key"),
		)
		var err error
		if s.client, err = id.httpClient(); err != nil {
			return nil, err
		}
	}
	s.Process = &Process{Name: "store", Command: append(command, o.StoreFlags...), Log: o.log("store")}
	return s, nil
}

// Start starts the store and waits until it serves.
func (s *Store) Start(ctx context.Context) error {
	if err := s.Process.Start(); err != nil {
		return err
	}
	return Until(ctx, time.Minute, 20*time.Millisecond, "the store to be healthy", func() (bool, error) {
		if !s.Running() {
			return false, fmt.Errorf("it ended; see %s", s.Log)
		}
		body, err := s.get(ctx, "/health")
		return strings.Contains(body, `"health":"true"`), err
	})
}

// Crash kills the store without notice and starts it again on what it left behind.
func (s *Store) Crash(ctx context.Context) error {
	s.Kill()
	return s.Start(ctx)
}

// Forget kills the store, removes its data and starts it again: what no store may do. It shows that a trial would
// notice.
func (s *Store) Forget(ctx context.Context) error {
	s.Kill()
	if err := os.RemoveAll(s.Data); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Rewind kills the store and starts it again on a copy of its data that is half a second old, so that it lacks what it
// acknowledged last: what no store may do, either.
func (s *Store) Rewind(ctx context.Context) error {
	copied := s.Data + ".copy"
	err := Until(ctx, 10*time.Second, 0, "a copy of the data", func() (bool, error) {
		if err := os.RemoveAll(copied); err != nil {
			return false, err
		}
		// Files come and go meanwhile, so it may take more than one attempt.
		return true, os.CopyFS(copied, os.DirFS(s.Data))
	})
	if err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	s.Kill()
	if err := os.RemoveAll(s.Data); err != nil {
		return err
	}
	if err := os.Rename(copied, s.Data); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Metrics reads the store's metrics.
func (s *Store) Metrics(ctx context.Context) (Metrics, error) {
	body, err := s.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(strings.NewReader(body))
}

func (s *Store) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return "", err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return string(body), err
}
