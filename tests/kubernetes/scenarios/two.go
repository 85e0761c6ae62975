package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"vetch.invalid/trials/cluster"
)

// twoServers writes through one API server and lists through the other, which must know of the write at once; then both count
// up one number against each other, and no step may be lost.
func twoServers(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "two")
	if err != nil {
		return err
	}
	if err := readYourWrites(ctx, w, name, 100); err != nil {
		return err
	}
	return countTogether(ctx, w, name, 4, 25)
}

func readYourWrites(ctx context.Context, w *world, namespace string, rounds int) error {
	var took []time.Duration
	for round := range rounds {
		writing, reading := w.clients[round%2], w.clients[(round+1)%2]
		name := fmt.Sprintf("note-%d", round)
		object := newWriter("", nil, nil, 0).object(name, "", "")
		var rv string
		err := w.try(ctx, "create", func() error {
			created, err := writing.CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
			if err == nil {
				rv = created.ResourceVersion
			}
			return w.created(err)
		})
		if err != nil {
			return err
		}
		begun := time.Now()
		err = w.try(ctx, "list through the other API server", func() error {
			return sees(ctx, reading, namespace, name, rv, round+1)
		})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	w.note("%d consistent lists: median %v, longest %v", rounds, took[rounds/2].Round(100*time.Microsecond),
		took[rounds-1].Round(100*time.Microsecond))
	return nil
}

// sees checks that a consistent list holds an object, all others before it, and says a revision that is not older.
func sees(ctx context.Context, client kubernetes.Interface, namespace, name, rv string, count int) error {
	list, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	if len(list.Items) != count {
		return fmt.Errorf("%d objects are listed instead of %d", len(list.Items), count)
	}
	if number(list.ResourceVersion) < number(rv) {
		return fmt.Errorf("the list is of revision %s, and %s was written at %s", list.ResourceVersion, name, rv)
	}
	if !slices.ContainsFunc(list.Items, func(o v1.ConfigMap) bool { return o.Name == name }) {
		return fmt.Errorf("%s, written at %s, is not in the list of %s", name, rv, list.ResourceVersion)
	}
	return nil
}

// countTogether lets several clients increment one number through both API servers; a watch sees every number once.
func countTogether(ctx context.Context, w *world, namespace string, clients, each int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const name = "counter"
	maps := w.clients[0].CoreV1().ConfigMaps(namespace)
	err := w.try(ctx, "create the counter", func() error {
		_, err := maps.Create(ctx, newWriter("", nil, nil, 0).object(name, "", "0"), metav1.CreateOptions{})
		return w.created(err)
	})
	if err != nil {
		return err
	}
	f, err := w.followConfigMaps(ctx, namespace, 1)
	if err != nil {
		return err
	}
	failures := make(chan error, clients)
	var group sync.WaitGroup
	for n := range clients {
		group.Go(func() { failures <- increment(ctx, w, w.clients[n%2], namespace, name, each) })
	}
	group.Wait()
	for range clients {
		if err := <-failures; err != nil {
			return err
		}
	}
	return w.judgeCounter(ctx, f, name, clients*each)
}

func increment(ctx context.Context, w *world, client kubernetes.Interface, namespace, name string, times int) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	patient := retry.DefaultRetry
	patient.Steps, patient.Cap = 100, time.Second
	for range times {
		err := w.try(ctx, "increment", func() error {
			return retry.RetryOnConflict(patient, func() error {
				object, err := maps.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				value, err := strconv.Atoi(object.Data[field])
				if err != nil {
					return err
				}
				object.Data[field] = strconv.Itoa(value + 1)
				_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// judgeCounter checks that the watch saw 1, 2, 3 ... to the end. While the store is being killed, an increment may have happened
// and be done once more, so the end may lie further.
func (w *world) judgeCounter(ctx context.Context, f *follower, name string, end int) error {
	return w.until(ctx, 30*time.Second, "the watch to see the last number", func() (bool, error) {
		events, _, err := f.soFar()
		if err != nil {
			return false, err
		}
		last := 0
		for _, event := range events {
			if event.key != name || event.kind != watch.Modified {
				continue
			}
			if value, _ := strconv.Atoi(event.value); value != last+1 {
				return false, cluster.GiveUp(fmt.Errorf("the watch was told %q after %d", event.value, last))
			}
			last++
		}
		if last > end && !w.stormy {
			return false, cluster.GiveUp(fmt.Errorf("%d increments led to %d", end, last))
		}
		return last >= end, nil
	})
}
