package main

import (
	"context"
	"math"
	"slices"
	"time"

	"vetch.invalid/trials/cluster"
)

// The groups of the table, in its order.
const (
	groupLists  = "Consistent lists, as the client sees them"
	groupClient = "Single requests, as the client sees them"
	groupServer = "apiserver_request_duration_seconds"
	groupEtcd   = "etcd_request_duration_seconds"
	groupStarts = "Restarts"
	groupStore  = "The store in the steady phase"
	groupWhole  = "The whole in the steady phase"
	groupLoad   = "Loading"
)

var groups = []string{groupLists, groupClient, groupServer, groupEtcd, groupStarts, groupStore, groupWhole, groupLoad}

// reportSteady turns what was seen in the steady phase into rows.
func (r *run) reportSteady(before, after cluster.Metrics, used *window, times *stopwatch, revisions float64) {
	for _, list := range r.lists() {
		r.addTimes(groupLists, list.name, times)
	}
	waits := after.Histogram("apiserver_watch_cache_read_wait_seconds", nil).
		Since(before.Histogram("apiserver_watch_cache_read_wait_seconds", nil))
	r.addHistogram(groupServer, "all lists: wait for a fresh cache (apiserver_watch_cache_read_wait_seconds)", waits)
	r.result.add(groupWhole, "lists for which the cache was not fresh in time", count,
		difference(before, after, "apiserver_watch_cache_consistent_read_total", cluster.Labels{"success": "false"}))
	for _, what := range []string{"get", "create", "update", "delete"} {
		r.addTimes(groupClient, "config map: "+what, times)
	}
	r.addTimes(groupClient, "pod: delete", times)
	for _, verb := range []string{"GET", "LIST", "POST", "PUT", "PATCH", "DELETE"} {
		const name = "apiserver_request_duration_seconds"
		labels := cluster.Labels{"verb": verb}
		r.addHistogram(groupServer, verb, after.Histogram(name, labels).Since(before.Histogram(name, labels)))
	}
	for _, operation := range operations(after) {
		const name = "etcd_request_duration_seconds"
		labels := cluster.Labels{"operation": operation}
		r.addHistogram(groupEtcd, operation, after.Histogram(name, labels).Since(before.Histogram(name, labels)))
	}
	r.reportUsage(before, after, used, revisions)
}

func (r *run) reportUsage(before, after cluster.Metrics, used *window, revisions float64) {
	length := used.duration.Seconds()
	store := r.Store.Name
	cpu := used.cpu[store].Seconds()
	r.result.add(groupStore, "CPU", seconds, cpu)
	r.result.add(groupStore, "CPU of each write", microseconds, cpu/revisions*1e6)
	r.result.add(groupStore, "memory, median", mebibytes, medianBytes(used.memory))
	r.result.add(groupStore, "memory, peak since the start", mebibytes, float64(r.usage.peak(store))/(1<<20))
	r.result.add(groupStore, "disk, most", mebibytes, float64(used.disk)/(1<<20))
	r.result.add(groupStore, "writes (revisions)", perSecond, revisions/length)
	r.result.add(groupWhole, "leases renewed", perSecond, difference(before, after, "apiserver_request_total",
		cluster.Labels{"verb": "PUT", "resource": "leases", "code": "200"})/length)
	r.result.add(groupWhole, "pods bound by the scheduler", perSecond, difference(before, after, "apiserver_request_total",
		cluster.Labels{"verb": "POST", "resource": "pods", "subresource": "binding"})/length)
	r.result.add(groupWhole, "comparisons of cache and store, since the start", count,
		after.Sum("apiserver_storage_consistency_checks_total", cluster.Labels{"status": "success"}))
	r.result.add(groupWhole, "processors busy, of all", percent, used.busy/length/processors()*100)
	for _, process := range r.Processes() {
		if process.Name == store {
			continue
		}
		r.result.add(groupWhole, "CPU: "+process.Name, seconds, used.cpu[process.Name].Seconds())
		r.result.add(groupWhole, "memory, peak: "+process.Name, mebibytes, float64(r.usage.peak(process.Name))/(1<<20))
	}
}

// reportObjects counts what the cluster consists of by now.
func (r *run) reportObjects(ctx context.Context) error {
	for _, object := range []struct{ name, path string }{
		{"pods", "/api/v1/pods"}, {"nodes", "/api/v1/nodes"}, {"leases", "/apis/coordination.k8s.io/v1/leases"},
		{"events", "/api/v1/events"},
	} {
		number, err := r.count(ctx, object.path, "")
		if err != nil {
			return err
		}
		r.result.add(groupWhole, "objects: "+object.name, count, float64(number))
	}
	metrics, err := r.Store.Metrics(ctx)
	if err != nil {
		return err
	}
	r.result.add(groupStore, "keys", count, metrics.Sum("etcd_debugging_mvcc_keys_total", nil))
	r.result.add(groupStore, "size in use, by its own account", mebibytes,
		metrics.Sum("etcd_mvcc_db_total_size_in_use_in_bytes", nil)/(1<<20))
	return nil
}

func difference(before, after cluster.Metrics, name string, labels cluster.Labels) float64 {
	return after.Sum(name, labels) - before.Sum(name, labels)
}

// addTimes adds what this program measured itself.
func (r *run) addTimes(group, what string, times *stopwatch) {
	sorted := times.sorted(what)
	if len(sorted) == 0 {
		return
	}
	r.result.addTo(group, what, "number", count, float64(len(sorted)))
	shares := []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}
	for _, share := range shares {
		// A share that only single requests exceed says nothing.
		if share.q <= 0.5 || float64(len(sorted))*(1-share.q) >= 1 {
			r.result.addTo(group, what, share.name, milliseconds, inMilliseconds(quantile(sorted, share.q)))
		}
	}
	r.result.addTo(group, what, "longest", milliseconds, inMilliseconds(sorted[len(sorted)-1]))
}

// addHistogram adds what the API server measured. The mean is exact; percentiles are as fine as its buckets are, of
// which the first ends at 5 ms.
func (r *run) addHistogram(group, what string, h cluster.Histogram) {
	if h.Count == 0 {
		return
	}
	r.result.addTo(group, what, "number", count, h.Count)
	r.result.addTo(group, what, "mean", milliseconds, h.Sum/h.Count*1000)
	r.result.addTo(group, what, "p50", milliseconds, h.Quantile(0.5)*1000)
	r.result.addTo(group, what, "p90", milliseconds, h.Quantile(0.9)*1000)
	r.result.addTo(group, what, "p99", milliseconds, h.Quantile(0.99)*1000)
}

// operations are the kinds of requests to the store that the API server tells apart.
func operations(metrics cluster.Metrics) []string {
	var found []string
	if family := metrics["etcd_request_duration_seconds"]; family != nil {
		for _, series := range family.Metric {
			for _, label := range series.Label {
				if label.GetName() == "operation" && !slices.Contains(found, label.GetValue()) {
					found = append(found, label.GetValue())
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func medianBytes(values []int64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return float64(sorted[len(sorted)/2]) / (1 << 20)
}
