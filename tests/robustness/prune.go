package main

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"go.etcd.io/etcd/tests/v3/robustness/model"
)

// Every put of the traffic has a value of its own. So a failed transaction whose puts are not on disk never happened,
// and it can be left out. Upstream does that as well, but keeps one that also deletes a key which another request
// deleted, and demands that it took effect at some time. The search then tries it again at every step until the end: two
// of them in a history of 20,000 operations are enough to exhaust its five minutes.
func (e evidence) pruned() evidence {
	onDisk := map[model.PutOptions]bool{}
	for _, request := range e.persisted {
		for _, put := range puts(request) {
			onDisk[put] = true
		}
	}
	reports := slices.Clone(e.reports)
	for r := range reports {
		operations := slices.Clone(reports[r].KeyValue)
		reports[r].KeyValue = slices.DeleteFunc(operations, func(operation porcupine.Operation) bool {
			written := puts(operation.Input.(model.EtcdRequest))
			failed := operation.Output.(model.MaybeEtcdResponse).Error != ""
			return failed && len(written) > 0 && !slices.ContainsFunc(written, func(put model.PutOptions) bool { return onDisk[put] })
		})
	}
	return evidence{reports, e.persisted}
}

func puts(request model.EtcdRequest) (all []model.PutOptions) {
	if request.Txn == nil {
		return nil
	}
	for _, operation := range request.Txn.AllOperations() {
		if operation.Type == model.PutOperation {
			all = append(all, model.PutOptions{Key: operation.Put.Key, Value: operation.Put.Value})
		}
	}
	return all
}
