package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"vetch.invalid/trials/cluster"
)

// world is what a scenario plays in.
type world struct {
	*cluster.Cluster
	clients []*kubernetes.Clientset // one for each API server
	random  *rand.Rand              // of the scenario; not for several goroutines
	fast    bool
	aborts  time.Duration // how long the scenario of that name lasts
	lose    string        // what the store loses when it is killed, so that scenarios can be seen to fail: all, recent or nothing

	// stormy says that the store is killed again and again while scenarios play, so that single requests may fail.
	stormy bool
	store  sync.Mutex // held while the store is killed and started
	kills  int
	notes  []string // what the running scenario has to tell besides that it passed
}

// note adds to the line that a passed scenario prints.
func (w *world) note(format string, arguments ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, arguments...))
}

// crashStore kills the store and starts it again.
func (w *world) crashStore(ctx context.Context) error {
	w.store.Lock()
	defer w.store.Unlock()
	w.kills++
	switch w.lose {
	case "all":
		return w.Store.Forget(ctx)
	case "recent":
		return w.Store.Rewind(ctx)
	default:
		return w.Store.Crash(ctx)
	}
}

// storm kills the store about every so often until the context ends.
func (w *world) storm(ctx context.Context, often time.Duration, random *rand.Rand) error {
	// The first comes early, so that the first scenario is not spared.
	for pause := 3 * time.Second; ; pause = often*4/5 + time.Duration(random.Int64N(int64(often*2/5))) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		// Not under ctx: it must be up again when this returns.
		if err := w.crashStore(context.Background()); err != nil {
			return err
		}
	}
}

// passing tells whether an error is one that a client meets while a server is away, and not an answer.
func passing(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := int(status.Status().Code)
		return code >= 500 || code == http.StatusTooManyRequests
	}
	return err != nil && !errors.Is(err, context.Canceled)
}

// try does something that must succeed; while the store is being killed, in the end. It may be done several times, so
// "already exists" and "not found" are left to the caller to judge with done.
func (w *world) try(ctx context.Context, what string, do func() error) error {
	for end := time.Now().Add(time.Minute); ; {
		err := do()
		if err == nil {
			return nil
		}
		if !w.stormy || !passing(err) || time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// created judges the error of a create that may have been done before.
func (w *world) created(err error) error {
	if w.stormy && apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// deleted judges the error of a delete that may have been done before.
func (w *world) deleted(err error) error {
	if w.stormy && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// namespace creates a namespace with a new name.
func (w *world) namespace(ctx context.Context, prefix string) (string, error) {
	name := fmt.Sprintf("%s-%06x", prefix, w.random.Uint32N(1<<24))
	object := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return name, w.try(ctx, "create namespace", func() error {
		_, err := w.clients[0].CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
		return w.created(err)
	})
}

// until waits for a condition of the cluster.
func (w *world) until(ctx context.Context, patience time.Duration, what string, ask func() (bool, error)) error {
	return cluster.Until(ctx, patience, 200*time.Millisecond, what, ask)
}

// kubectl prepares a call of kubectl through one of the API servers.
func (w *world) kubectl(ctx context.Context, server int, arguments ...string) *exec.Cmd {
	arguments = append([]string{"--kubeconfig", w.APIServers[server].Kubeconfig}, arguments...)
	return exec.CommandContext(ctx, w.Binary("kubectl"), arguments...)
}
