package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"vetch.invalid/trials/cluster"
)

const (
	listObjects = 1200
	listPage    = 100
)

// lists reads some objects in all the ways there are, through the API server that reads lists by stream and through the one that
// reads pages: whole, in pages while they change, at an old revision, at one of the future, and at one that was compacted.
func lists(ctx context.Context, w *world) error {
	name, err := w.namespace(ctx, "lists")
	if err != nil {
		return err
	}
	if err := createObjects(ctx, w, name); err != nil {
		return err
	}
	plays := make([]*listPlay, len(w.clients))
	for n, client := range w.clients {
		plays[n] = &listPlay{w: w, server: n, namespace: name, client: client.CoreV1().ConfigMaps(name)}
		if err := plays[n].whileItChanges(ctx); err != nil {
			return fmt.Errorf("API server %d: %w", n, err)
		}
	}
	// Both wait for the same compaction.
	failures := make(chan error, len(plays))
	var group sync.WaitGroup
	for _, play := range plays {
		group.Go(func() {
			if err := firstOf(play.future(ctx), play.afterCompaction(ctx)); err != nil {
				failures <- fmt.Errorf("API server %d: %w", play.server, err)
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return judgePaths(ctx, w)
	}
}

func createObjects(ctx context.Context, w *world, namespace string) error {
	failures := make(chan error, 8)
	var group sync.WaitGroup
	for worker := range cap(failures) {
		group.Go(func() {
			maps := w.clients[worker%2].CoreV1().ConfigMaps(namespace)
			for n := worker; n < listObjects; n += cap(failures) {
				object := newWriter("", nil, nil, 0).object(fmt.Sprintf("object-%04d", n), "", "old")
				err := w.try(ctx, "create", func() error {
					_, err := maps.Create(ctx, object, metav1.CreateOptions{})
					return w.created(err)
				})
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// listPlay reads through one API server.
type listPlay struct {
	w         *world
	server    int
	namespace string
	client    corev1.ConfigMapInterface
	// A list of the past, and the way to its second page.
	rv, token string
	whole     []v1.ConfigMap
}

func (p *listPlay) list(ctx context.Context, what string, o metav1.ListOptions) (*v1.ConfigMapList, error) {
	o.LabelSelector = selector
	var list *v1.ConfigMapList
	err := p.w.try(ctx, what, func() error {
		var err error
		list, err = p.client.List(ctx, o)
		return err
	})
	return list, err
}

// whileItChanges reads the first page, changes things, and reads the rest: it must be as it was. So must the list at the old
// revision, while a new list is not.
func (p *listPlay) whileItChanges(ctx context.Context) error {
	whole, err := p.list(ctx, "list all", metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(whole.Items) != listObjects {
		return fmt.Errorf("%d objects are listed instead of %d", len(whole.Items), listObjects)
	}
	first, err := p.list(ctx, "list the first page", metav1.ListOptions{Limit: listPage})
	if err != nil {
		return err
	}
	p.rv, p.token, p.whole = first.ResourceVersion, first.Continue, whole.Items
	if number(p.rv) < number(whole.ResourceVersion) {
		return fmt.Errorf("the list went back from revision %s to %s", whole.ResourceVersion, p.rv)
	}
	if err := p.change(ctx); err != nil {
		return err
	}
	items, err := p.pages(ctx, first)
	if err != nil {
		return err
	}
	if err := p.same(items); err != nil {
		return fmt.Errorf("in pages: %w", err)
	}
	exact, err := p.list(ctx, "list an old revision",
		metav1.ListOptions{ResourceVersion: p.rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err != nil {
		return err
	}
	if err := p.same(exact.Items); err != nil {
		return fmt.Errorf("at the old revision: %w", err)
	}
	return p.newer(ctx)
}

// change updates an object, deletes one and creates one, all beyond the first page, and sets them back to be counted again.
func (p *listPlay) change(ctx context.Context) error {
	return p.w.try(ctx, "change objects", func() error {
		for _, n := range []int{listPage + 1, listObjects / 2, listObjects - 1} {
			object := newWriter("", nil, nil, 0).object(fmt.Sprintf("object-%04d", n), "", fmt.Sprintf("new-%d", p.server))
			if _, err := p.client.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("object-%04d", listPage+2)
		err := p.client.Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		object := newWriter("", nil, nil, 0).object(name, "", "again")
		_, err = p.client.Create(ctx, object, metav1.CreateOptions{})
		return p.w.created(err)
	})
}

// pages reads on from a first page to the end; all pages are of one revision.
func (p *listPlay) pages(ctx context.Context, page *v1.ConfigMapList) ([]v1.ConfigMap, error) {
	items := page.Items
	for rv := page.ResourceVersion; page.Continue != ""; {
		if len(page.Items) != listPage {
			return nil, fmt.Errorf("a page of %d has %d items", listPage, len(page.Items))
		}
		if page.RemainingItemCount != nil && int(*page.RemainingItemCount) != listObjects-len(items) {
			return nil, fmt.Errorf("%d items are said to remain after %d", *page.RemainingItemCount, len(items))
		}
		next, err := p.list(ctx, "list the next page", metav1.ListOptions{Limit: listPage, Continue: page.Continue})
		if err != nil {
			return nil, err
		}
		if next.ResourceVersion != rv {
			return nil, fmt.Errorf("pages of revisions %s and %s", rv, next.ResourceVersion)
		}
		page = next
		items = append(items, page.Items...)
	}
	return items, nil
}

// same compares items with the whole list of before.
func (p *listPlay) same(items []v1.ConfigMap) error {
	if len(items) != len(p.whole) {
		return fmt.Errorf("%d items instead of %d", len(items), len(p.whole))
	}
	for n, item := range items {
		was := p.whole[n]
		if item.Name != was.Name || item.ResourceVersion != was.ResourceVersion || item.Data[field] != was.Data[field] {
			return fmt.Errorf("item %d is %s %q at %s instead of %s %q at %s", n, item.Name, item.Data[field],
				item.ResourceVersion, was.Name, was.Data[field], was.ResourceVersion)
		}
	}
	return nil
}

// newer checks the lists that must know of the changes, and one that need not.
func (p *listPlay) newer(ctx context.Context) error {
	var newest string
	for _, o := range []metav1.ListOptions{{}, {Limit: 2 * listObjects}} {
		list, err := p.list(ctx, "list anew", o)
		if err != nil {
			return err
		}
		if err := p.same(list.Items); err == nil || number(list.ResourceVersion) <= number(p.rv) {
			return fmt.Errorf("a list of revision %s knows nothing of changes after %s", list.ResourceVersion, p.rv)
		}
		newest = list.ResourceVersion
	}
	list, err := p.list(ctx, "list what is not older",
		metav1.ListOptions{ResourceVersion: newest, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		return err
	}
	if number(list.ResourceVersion) < number(newest) || len(list.Items) != listObjects {
		return fmt.Errorf("not older than %s is a list of %d at %s", newest, len(list.Items), list.ResourceVersion)
	}
	_, err = p.list(ctx, "list anything", metav1.ListOptions{ResourceVersion: "0"})
	return err
}

// future asks for revisions that are not there yet: the answer is to try later.
func (p *listPlay) future(ctx context.Context) error {
	future := strconv.FormatUint(number(p.rv)+1_000_000_000, 10)
	for _, match := range []metav1.ResourceVersionMatch{metav1.ResourceVersionMatchNotOlderThan, metav1.ResourceVersionMatchExact} {
		o := metav1.ListOptions{ResourceVersion: future, ResourceVersionMatch: match}
		// Not by List, which would try ten times.
		err := p.w.clients[p.server].CoreV1().RESTClient().Get().Namespace(p.namespace).Resource("configmaps").
			VersionedParams(&o, scheme.ParameterCodec).MaxRetries(0).Do(ctx).Error()
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != http.StatusGatewayTimeout && !(p.w.stormy && passing(err)) {
			return fmt.Errorf("a list %s of the future %s: %v", match, future, err)
		}
	}
	return nil
}

// afterCompaction waits until the old revision is compacted. Then it is gone, and so is the way to the next page; but the answer
// offers another way on, in what is there now.
func (p *listPlay) afterCompaction(ctx context.Context) error {
	begun := time.Now()
	err := p.w.until(ctx, time.Minute, "revision "+p.rv+" to be compacted", func() (bool, error) {
		_, err := p.client.List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: p.rv,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact, Limit: 1})
		if compacted(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return err
	}
	p.w.note("API server %d: compacted after %.0fs", p.server, time.Since(begun).Seconds())
	_, err = p.list(ctx, "", metav1.ListOptions{Limit: listPage, Continue: p.token})
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusGone {
		return fmt.Errorf("the next page of a compacted list: %v", err)
	}
	token := status.Status().ListMeta.Continue
	if token == "" {
		return fmt.Errorf("no way on from a compacted list: %w", err)
	}
	list, err := p.list(ctx, "list on", metav1.ListOptions{Continue: token})
	if err != nil {
		return err
	}
	if len(list.Items) != listObjects-listPage || list.Items[0].Name != p.whole[listPage].Name {
		return fmt.Errorf("%d items are left from a compacted list instead of %d", len(list.Items), listObjects-listPage)
	}
	return p.watchCompacted(ctx)
}

// watchCompacted watches from the compacted revision what is not cached, so that the store has to answer: it is gone.
func (p *listPlay) watchCompacted(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := p.w.clients[p.server].CoreV1().Events(p.namespace)
	f := follow(ctx, "watch of a compacted revision", p.rv, func(o metav1.ListOptions) (watch.Interface, error) {
		return client.Watch(ctx, o)
	})
	return p.w.until(ctx, 30*time.Second, "the watch of a compacted revision to end", func() (bool, error) {
		_, _, err := f.soFar()
		if compacted(err) {
			return true, nil
		}
		return false, err
	})
}

// judgePaths checks that the two API servers really read the store in different ways.
func judgePaths(ctx context.Context, w *world) error {
	requests := func(n int, operation string) (float64, error) {
		var metrics cluster.Metrics
		err := w.try(ctx, "read metrics", func() error {
			var err error
			metrics, err = w.APIServers[n].Metrics(ctx)
			return err
		})
		return metrics.Sum("etcd_requests_total", cluster.Labels{"operation": operation}), err
	}
	streams, err := requests(0, "listStream")
	if err != nil {
		return err
	}
	none, err := requests(1, "listStream")
	if err != nil {
		return err
	}
	pages, err := requests(1, "list")
	if err != nil {
		return err
	}
	if streams == 0 || none != 0 || pages == 0 {
		return fmt.Errorf("API server 0 read %v lists by stream, API server 1 %v, and %v by page", streams, none, pages)
	}
	w.note("%.0f lists by stream through one, %.0f pages through the other", streams, pages)
	return nil
}
