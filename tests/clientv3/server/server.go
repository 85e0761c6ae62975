// Package server starts one etcd or Vetch on loopback and measures it from outside.
package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Server is one process. Both kinds take the same flags.
type Server struct {
	Endpoint string

	home    string
	log     string
	process *exec.Cmd
	exited  chan struct{}
	ended   atomic.Pointer[string]
}

// Options say how to start a server.
type Options struct {
	Binary string
	Home   string // data and log
	Port   int    // first of some ports that are tried
	TLS    bool   // with a certificate that the server makes for itself
	Flags  []string
}

// The kernel kills a server when the thread that started it ends, so that has to be the one that lasts.
func init() { runtime.LockOSThread() }

// Start starts a process and waits until it answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	scheme := "http"
	if o.TLS {
		scheme = "https"
		o.Flags = append(o.Flags, "--auto-tls")
	}
	port, err := freePorts(o.Port)
	if err != nil {
		return nil, err
	}
	s := &Server{Endpoint: fmt.Sprintf("%s://127.0.0.1:%d", scheme, port), home: o.Home,
		log: filepath.Join(o.Home, "server.log"), exited: make(chan struct{})}
	if err := s.spawn(o, fmt.Sprintf("http://127.0.0.1:%d", port+1)); err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) spawn(o Options, peer string) error {
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	s.process = exec.Command(o.Binary, append([]string{"--name=trial", "--data-dir=" + filepath.Join(o.Home, "data"),
		"--listen-client-urls=" + s.Endpoint, "--advertise-client-urls=" + s.Endpoint,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=trial=" + peer,
		"--quota-backend-bytes=4294967296"}, o.Flags...)...)
	s.process.Stdout, s.process.Stderr = log, log
	// The server ends with the trial, even if that is killed. Start is called by main.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		return err
	}
	go func() {
		err := s.process.Wait()
		how := s.process.ProcessState.String()
		if err != nil {
			how = err.Error()
		}
		s.ended.Store(&how)
		close(s.exited)
	}()
	return nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	for deadline := time.Now().Add(30 * time.Second); ; {
		attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := client.Get(attempt, "ready")
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if s.Ended() != "" || time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer: %w; it says:\n%s", err, s.Tail())
		}
	}
}

// freePorts finds two neighbouring ports below those that the kernel gives to clients.
func freePorts(first int) (int, error) {
	for port := first; port < first+100; port += 2 {
		if free(port) && free(port+1) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free ports from %d on", first)
}

func free(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// Client opens a connection of its own.
func (s *Server) Client() (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop()}
	if strings.HasPrefix(s.Endpoint, "https") {
		config.TLS = &tls.Config{InsecureSkipVerify: true}
	}
	return clientv3.New(config)
}

// Ended says how the process ended by itself; empty while it runs.
func (s *Server) Ended() string {
	if how := s.ended.Load(); how != nil {
		return *how
	}
	return ""
}

// Exited is closed when the process has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Tail is where a panic begins in the log, or the end of it.
func (s *Server) Tail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	if at := strings.Index(string(text), "panicked at"); at >= 0 {
		return string(text[at:min(len(text), at+300)])
	}
	return string(text[max(0, len(text)-1000):])
}

// Stop asks the process to end, and kills it if it does not.
func (s *Server) Stop() error {
	if s.Ended() != "" {
		return errors.New("the server had ended by itself: " + s.Ended())
	}
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(30 * time.Second):
		s.process.Process.Kill()
		<-s.exited
		return errors.New("the server did not end within 30s")
	}
}

// Usage is what a server holds.
type Usage struct {
	Resident    float64 // MiB
	Threads     int
	Descriptors int
	// By the server's own metrics; -1 if it has none of that name.
	Calls, Watchers, WatchStreams, Connections, Goroutines float64
}

// Measure reads memory, threads and descriptors from the kernel, and the rest from the server's metrics.
func (s *Server) Measure(ctx context.Context) (Usage, error) {
	metrics, err := s.Metrics(ctx)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Calls: metrics["grpc_server_started_total"] - metrics["grpc_server_handled_total"],
		Watchers: metrics["etcd_debugging_mvcc_watcher_total"], WatchStreams: metrics["etcd_debugging_mvcc_watch_stream_total"],
		Connections: -1, Goroutines: -1}
	if n, ok := metrics["vetch_connections"]; ok {
		u.Connections = n
	}
	if n, ok := metrics["go_goroutines"]; ok {
		u.Goroutines = n
	}
	if u.Resident, u.Threads, err = s.status(); err != nil {
		return u, err
	}
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.Process.Pid))
	u.Descriptors = len(descriptors)
	return u, err
}

func (s *Server) status() (resident float64, threads int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 1 && fields[0] == "VmRSS:":
			kib, _ := strconv.ParseFloat(fields[1], 64)
			resident = kib / 1024
		case len(fields) > 1 && fields[0] == "Threads:":
			threads, _ = strconv.Atoi(fields[1])
		}
	}
	return resident, threads, nil
}

// Metrics reads the page of metrics; samples of one name are added up.
func (s *Server) Metrics(ctx context.Context) (map[string]float64, error) {
	// A connection that is closed at once, so that it is not counted.
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/metrics answers %s", answer.Status)
	}
	return parse(answer.Body)
}

func parse(page io.Reader) (map[string]float64, error) {
	sums := map[string]float64{}
	lines := bufio.NewScanner(page)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(line[:space], "{")
		sums[name] += value
	}
	return sums, lines.Err()
}
