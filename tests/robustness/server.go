package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// server is one etcd or Vetch on loopback. Both take the same flags.
type server struct {
	binary   string
	home     string
	endpoint string
	peer     string
	log      *os.File
	process  *exec.Cmd
}

func newServer(binary, home string) (*server, error) {
	log, err := os.Create(filepath.Join(home, "server.log"))
	if err != nil {
		return nil, err
	}
	s := &server{binary: binary, home: home, log: log}
	// The ports lie below those that the kernel gives to clients. Above, a client that dials while the server is
	// away could be given the server's own port, and then be connected with itself.
	for port := 24400; port < 24500; port += 2 {
		if free(port) && free(port+1) {
			s.endpoint, s.peer = fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", port+1)
			return s, nil
		}
	}
	return nil, errors.New("no free ports from 24400 to 24499")
}

func free(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func (s *server) dataDir() string { return filepath.Join(s.home, "data") }

// spawn runs the process on the data directory as it is.
func (s *server) spawn() error {
	s.process = exec.Command(s.binary,
		"--name=trial", "--data-dir="+s.dataDir(),
		"--listen-client-urls="+s.endpoint, "--advertise-client-urls="+s.endpoint,
		"--listen-peer-urls="+s.peer, "--initial-advertise-peer-urls="+s.peer, "--initial-cluster=trial="+s.peer,
		"--watch-progress-notify-interval=100ms")
	s.process.Stdout, s.process.Stderr = s.log, s.log
	return s.process.Start()
}

// start runs the process and waits until it answers.
func (s *server) start(ctx context.Context) error {
	if err := s.spawn(); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.Close()
	deadline := time.Now().Add(30 * time.Second)
	for {
		attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := client.Get(attempt, "ready")
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server did not answer for 30s: %w", err)
		}
	}
}

func (s *server) client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{s.endpoint}, Logger: zap.NewNop()})
}

// end sends a signal that ends the process, and waits until it is gone.
func (s *server) end(signal os.Signal) error {
	if s.process == nil {
		return nil
	}
	process := s.process
	s.process = nil
	if err := process.Process.Signal(signal); err != nil {
		return err
	}
	process.Wait() // How it ended is the signal's doing; that it ended is all that matters.
	return nil
}

// kill is a crash of the process: it is gone at once, comes back after a random moment, and must answer again. One
// time in four it crashes again while it is coming back.
func (s *server) kill(ctx context.Context) error {
	if err := s.end(syscall.SIGKILL); err != nil {
		return err
	}
	time.Sleep(upTo(500 * time.Millisecond))
	if rand.IntN(4) == 0 {
		if err := s.spawn(); err != nil {
			return err
		}
		time.Sleep(upTo(100 * time.Millisecond))
		if err := s.end(syscall.SIGKILL); err != nil {
			return err
		}
	}
	return s.start(ctx)
}

// pause stops the process for longer than clients wait for an answer.
func (s *server) pause(context.Context) error {
	if err := s.process.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(300*time.Millisecond + upTo(time.Second))
	return s.process.Process.Signal(syscall.SIGCONT)
}

// hash is the state as the server itself sums it up.
type hash struct {
	sum             uint32
	revision        int64
	compactRevision int64
}

func (s *server) hash(ctx context.Context, revision int64) (hash, error) {
	client, err := s.client()
	if err != nil {
		return hash{}, err
	}
	defer client.Close()
	answer, err := client.HashKV(ctx, s.endpoint, revision)
	if err != nil {
		return hash{}, err
	}
	return hash{answer.Hash, answer.Header.Revision, answer.CompactRevision}, nil
}
