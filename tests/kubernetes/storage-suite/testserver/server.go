// Package testserver gives each test of Kubernetes' storage layer a server process of its own.
//
// Kubernetes' tests start their store by a package of this name, which embeds etcd. The build overlay that
// storage-suite.sh writes puts this file in its place, so that the tests, otherwise unchanged, talk to the binary
// that STORAGE_SUITE_SERVER names. The two functions below have the signatures the tests call; embed.Config is
// only the form in which a test states what it wants. Settings that exist as flags are handed on as flags.
package testserver

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// The ports lie below the range from which the system takes the source ports of outgoing connections. A port that
// was free when it was looked at can therefore only be lost to another server.
const (
	firstPort = 18000
	portCount = 1000
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
)

var (
	portLock sync.Mutex
	nextPort = rand.IntN(portCount)
)

// NewTestConfig describes an empty server on a free port, with its data in a directory that goes with the test.
func NewTestConfig(t testing.TB) *embed.Config {
	t.Helper()
	address := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}
	config := embed.NewConfig()
	config.Dir = filepath.Join(t.TempDir(), "data")
	config.ListenClientUrls = []url.URL{address}
	config.AdvertiseClientUrls = []url.URL{address}
	return config
}

// RunEtcd starts the server, waits until it answers a read, and returns a client that counts its requests, as the
// tests expect. The test's end stops the server; a server that ended earlier fails the test.
func RunEtcd(t testing.TB, config *embed.Config) *kubernetes.Client {
	t.Helper()
	if config == nil {
		config = NewTestConfig(t)
	}
	begun := time.Now()
	startServer(t, config)
	awaitListener(t, config)
	client := connect(t, config)
	// An accepted connection is not enough: the compaction tests leave 100 ms for the first answer.
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if _, err := client.KV.Get(ctx, "anything"); err != nil {
		t.Fatalf("the server does not answer: %v", err)
	}
	t.Logf("server ready after %.1f ms", float64(time.Since(begun).Microseconds())/1000)

	recorder := storagetesting.NewKubernetesRecorder(client.Kubernetes)
	client.KV = storagetesting.NewKVRecorder(client.KV, recorder)
	client.Kubernetes = recorder
	return client
}

func freePort(t testing.TB) int {
	t.Helper()
	portLock.Lock()
	defer portLock.Unlock()
	for range portCount {
		port := firstPort + nextPort
		nextPort = (nextPort + 1) % portCount
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatalf("no free port in %d-%d", firstPort, firstPort+portCount-1)
	return 0
}

func flags(config *embed.Config) []string {
	flags := []string{
		"--data-dir", config.Dir,
		"--listen-client-urls", config.ListenClientUrls[0].String(),
		"--advertise-client-urls", config.AdvertiseClientUrls[0].String(),
		"--listen-peer-urls", "http://127.0.0.1:0",
		"--log-level", "warn",
	}
	if config.WatchProgressNotifyInterval != 0 {
		flags = append(flags, "--watch-progress-notify-interval", config.WatchProgressNotifyInterval.String())
	}
	if config.QuotaBackendBytes != 0 {
		flags = append(flags, "--quota-backend-bytes", strconv.FormatInt(config.QuotaBackendBytes, 10))
	}
	if tls := config.ClientTLSInfo; !tls.Empty() {
		flags = append(flags, "--cert-file", tls.CertFile, "--key-file", tls.KeyFile)
		flags = append(flags, "--trusted-ca-file", tls.TrustedCAFile)
	}
	return flags
}

func startServer(t testing.TB, config *embed.Config) {
	t.Helper()
	binary := os.Getenv("STORAGE_SUITE_SERVER")
	if binary == "" {
		t.Fatal("STORAGE_SUITE_SERVER does not name the server's binary")
	}
	var log bytes.Buffer
	server := exec.Command(binary, flags(config)...)
	server.Stdout = &log
	server.Stderr = &log
	// Go kills a test that exceeds its time without running its cleanups.
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatalf("cannot start the server: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		early, err := stopServer(server, ended)
		if early {
			t.Errorf("the server ended during the test: %v", err)
		} else if err != nil {
			t.Errorf("the server did not stop in order: %v", err)
		}
		if t.Failed() && log.Len() > 0 {
			t.Logf("the server's log:\n%s", log.String())
		}
	})
}

// awaitListener keeps the client from dialling too early: gRPC waits a whole second after a refused connection.
func awaitListener(t testing.TB, config *embed.Config) {
	t.Helper()
	address := config.ListenClientUrls[0].Host
	for deadline := time.Now().Add(startLimit); ; time.Sleep(time.Millisecond) {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not listen: %v", err)
		}
	}
}

// stopServer asks the server to end, and reports whether it had ended before it was asked.
func stopServer(server *exec.Cmd, ended <-chan error) (early bool, err error) {
	select {
	case err := <-ended:
		return true, err
	default:
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		return false, err
	}
	select {
	case err := <-ended:
		// After an orderly shutdown etcd ends by the signal it was sent, so that its parent sees the reason.
		if status, ok := server.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGTERM {
			return false, nil
		}
		return false, err
	case <-time.After(stopLimit):
		killed := server.Process.Kill()
		<-ended
		return false, fmt.Errorf("still running %v after SIGTERM (kill: %v)", stopLimit, killed)
	}
}

func connect(t testing.TB, config *embed.Config) *kubernetes.Client {
	t.Helper()
	tls, err := config.ClientTLSInfo.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.New(clientv3.Config{
		Endpoints:   []string{config.AdvertiseClientUrls[0].String()},
		DialTimeout: startLimit,
		TLS:         tls,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
