package main

import (
	"context"
	"fmt"
	"time"

	"vetch.invalid/trials/cluster"
)

const (
	checks = "apiserver_storage_consistency_checks_total"
	// Of the caches that an API server has, about sixty, so many at least must have been compared.
	comparedAtLeast = 50
)

// consistencyChecks waits until each API server has compared all its caches with the store, as often as since its start, and once
// more after everything else happened. One that found a difference would have panicked.
func consistencyChecks(ctx context.Context, w *world) error {
	before := make([]map[string]float64, len(w.APIServers))
	for n, server := range w.APIServers {
		compared, _, err := comparisons(ctx, server)
		if err != nil && !w.stormy {
			return err
		}
		before[n] = compared
	}
	for n, server := range w.APIServers {
		var again int
		var failed, successful, errors float64
		err := w.until(ctx, 3*consistencyPeriod+30*time.Second, fmt.Sprintf("API server %d to compare %d caches", n, comparedAtLeast), func() (bool, error) {
			compared, results, err := comparisons(ctx, server)
			if err != nil {
				return false, err
			}
			again = 0
			for resource, times := range compared {
				if times > before[n][resource] {
					again++
				}
			}
			failed, successful, errors = results["failure"], results["success"], results["error"]
			return again >= comparedAtLeast, nil
		})
		if err != nil {
			return fmt.Errorf("%w; it compared %d, %v in all, %v could not be", err, again, successful, errors)
		}
		if failed > 0 {
			return fmt.Errorf("API server %d found %v caches that differ from the store", n, failed)
		}
		w.note("API server %d: %v comparisons, %v not possible, 0 differences", n, successful, errors)
	}
	return nil
}

// comparisons counts the successful comparisons of each resource, and all by their result.
func comparisons(ctx context.Context, server *cluster.APIServer) (map[string]float64, map[string]float64, error) {
	metrics, err := server.Metrics(ctx)
	if err != nil {
		return nil, nil, err
	}
	compared, results := map[string]float64{}, map[string]float64{}
	if family := metrics[checks]; family != nil {
		for _, series := range family.Metric {
			label := map[string]string{}
			for _, pair := range series.Label {
				label[pair.GetName()] = pair.GetValue()
			}
			results[label["status"]] += series.Counter.GetValue()
			if label["status"] == "success" {
				compared[label["group"]+"/"+label["resource"]] = series.Counter.GetValue()
			}
		}
	}
	return compared, results, nil
}
