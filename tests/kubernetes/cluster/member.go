package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Member is one server of a store.
type Member struct {
	*Process
	Data string // its data directory
	URL  string

	client *http.Client
}

func newMember(o Options, id identity, n int, journal []string) (*Member, error) {
	url := o.memberURL(n)
	if o.TLS {
		url = "https" + strings.TrimPrefix(url, "http")
	}
	name := o.memberName(n)
	m := &Member{Data: filepath.Join(o.Dir, name), URL: url, client: http.DefaultClient}
	command := []string{o.StoreBinary,
		"--name=" + name,
		"--data-dir=" + m.Data,
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		"--listen-peer-urls=" + o.peerURL(n),
		"--initial-advertise-peer-urls=" + o.peerURL(n),
		// What kubeadm and others set; without it, quiet caches learn of new revisions every ten minutes.
		"--watch-progress-notify-interval=5s",
		"--quota-backend-bytes=8589934592",
	}
	if journal == nil {
		command = append(command, "--initial-cluster="+o.initialCluster())
	}
	command = append(command, journal...)
	if o.TLS {
		command = append(command,
			"--cert-file="+id.file("server.crt"),
			"--key-file="+id.file("server.key"),
			"--trusted-ca-file="+id.file("ca.crt"),
			"--client-cert-auth",
		)
		var err error
		if m.client, err = id.httpClient(); err != nil {
			return nil, err
		}
	}
	m.Process = &Process{Name: name, Command: append(command, o.StoreFlags...), Log: o.log(name)}
	return m, nil
}

// leads asks a member whether it takes itself for the leader.
func (m *Member) leads(ctx context.Context) (bool, error) {
	body, err := m.ask(ctx, http.MethodPost, "/v3/maintenance/status", "{}")
	if err != nil {
		return false, err
	}
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		}
		Leader string
	}
	err = json.Unmarshal([]byte(body), &status)
	return status.Leader != "" && status.Leader == status.Header.Member, err
}

func (m *Member) healthy(ctx context.Context) bool {
	body, err := m.get(ctx, "/health")
	return err == nil && strings.Contains(body, `"health":"true"`)
}

// Start starts the server and waits until it serves.
func (m *Member) Start(ctx context.Context) error {
	if err := m.Process.Start(); err != nil {
		return err
	}
	return Until(ctx, time.Minute, 20*time.Millisecond, m.Name+" to be healthy", func() (bool, error) {
		if !m.Running() {
			return false, fmt.Errorf("it ended; see %s", m.Log)
		}
		return m.healthy(ctx), nil
	})
}

// Forget kills the server, removes its data and starts it again: what no store may do. It shows that a trial would
// notice.
func (m *Member) Forget(ctx context.Context) error {
	m.Kill()
	if err := os.RemoveAll(m.Data); err != nil {
		return err
	}
	return m.Start(ctx)
}

// Rewind kills the server and starts it again on a copy of its data that is half a second old, so that it lacks what it
// acknowledged last: what no store may do, either.
func (m *Member) Rewind(ctx context.Context) error {
	copied := m.Data + ".copy"
	err := Until(ctx, 10*time.Second, 0, "a copy of the data", func() (bool, error) {
		if err := os.RemoveAll(copied); err != nil {
			return false, err
		}
		// Files come and go meanwhile, so it may take more than one attempt.
		return true, os.CopyFS(copied, os.DirFS(m.Data))
	})
	if err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	m.Kill()
	if err := os.RemoveAll(m.Data); err != nil {
		return err
	}
	if err := os.Rename(copied, m.Data); err != nil {
		return err
	}
	return m.Start(ctx)
}

// Metrics reads the store's metrics.
func (m *Member) Metrics(ctx context.Context) (Metrics, error) {
	body, err := m.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(strings.NewReader(body))
}

func (m *Member) get(ctx context.Context, path string) (string, error) {
	return m.ask(ctx, http.MethodGet, path, "")
}

func (m *Member) ask(ctx context.Context, method, path, content string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, m.URL+path, strings.NewReader(content))
	if err != nil {
		return "", err
	}
	response, err := m.client.Do(request)
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
