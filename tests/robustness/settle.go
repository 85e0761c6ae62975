package main

import (
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"go.etcd.io/etcd/tests/v3/robustness/model"
)

// What became of a failed request is unknown to its client, but not to the disk, and it is settled here before the
// validators search for a linearization. Upstream does the same, but not for requests that delete a key which others
// deleted too. The search tries each of those at every step until the end: a few in a history of 20,000 operations
// exhaust its five minutes, or the memory.
//
//   - Every put of the traffic has a value of its own, so a transaction none of whose puts is on disk never happened.
//   - A deletion on disk of which no client was told is the work of a failed request for it. If several could have
//     been it, they asked for the same, and if any of them fits, so does the one that was sent first. A failed request
//     for which no deletion is left had no effect.
//
// With leases keys go without being deleted by anybody; then deletes are left to upstream.
func (e evidence) settled() evidence {
	disk := e.onDisk()
	done := disk.doneByFailed(e)
	reports := slices.Clone(e.reports)
	for r := range reports {
		var operations []porcupine.Operation
		for i, operation := range reports[r].KeyValue {
			if isFailedWrite(operation) {
				revision, isDone := done[place{r, i}]
				switch {
				case hasPut(operation) && disk.revisionOfPut(operation) == 0, !hasPut(operation) && !disk.leases && !isDone:
					continue
				case isDone:
					operation.Output = model.MaybeEtcdResponse{Persisted: true, PersistedRevision: revision}
					operation.Return = math.MaxInt64
				}
			}
			operations = append(operations, operation)
		}
		reports[r].KeyValue = operations
	}
	return evidence{reports, e.persisted}
}

// place is where an operation is found: in which report, and where in it.
type place struct{ report, operation int }

// deletion is one on disk: of which key, when, and the revision that had last put it.
type deletion struct {
	key                string
	revision, replaced int64
}

type diskContent struct {
	puts      map[model.PutOptions]int64
	deletions []deletion
	leases    bool
}

func (e evidence) onDisk() diskContent {
	d := diskContent{puts: map[model.PutOptions]int64{}}
	d.leases = slices.ContainsFunc(e.persisted, func(r model.EtcdRequest) bool { return r.Type == model.LeaseGrant })
	replay := model.NewReplay(e.persisted)
	for _, event := range replay.Events {
		switch event.Type {
		case model.PutOperation:
			d.puts[model.PutOptions{Key: event.Key, Value: event.Value}] = event.Revision
		case model.DeleteOperation:
			found := deletion{key: event.Key, revision: event.Revision}
			if before, err := replay.StateForRevision(event.Revision - 1); err == nil {
				if value, exists := before.GetValue(event.Key); exists {
					found.replaced = value.ModRevision
				}
			}
			d.deletions = append(d.deletions, found)
		}
	}
	return d
}

// doneByFailed finds for every deletion that nobody was told of the failed request that made it.
func (d diskContent) doneByFailed(e evidence) map[place]int64 {
	if d.leases {
		return nil
	}
	told := map[deletion]bool{}
	suspects := map[string][]place{}
	for r, report := range e.reports {
		for i, operation := range report.KeyValue {
			revision := operation.Output.(model.MaybeEtcdResponse).Revision
			if isFailedWrite(operation) {
				revision = d.revisionOfPut(operation)
			}
			for _, key := range deletes(operation) {
				told[deletion{key: key, revision: revision}] = true
				if isFailedWrite(operation) && !hasPut(operation) {
					suspects[key] = append(suspects[key], place{r, i})
				}
			}
		}
	}
	call := func(p place) int64 { return e.reports[p.report].KeyValue[p.operation].Call }
	done := map[place]int64{}
	for _, found := range d.deletions {
		if told[deletion{key: found.key, revision: found.revision}] {
			continue
		}
		first, exists := place{}, false
		for _, p := range suspects[found.key] {
			txn := e.reports[p.report].KeyValue[p.operation].Input.(model.EtcdRequest).Txn
			if _, taken := done[p]; taken || len(txn.Conditions) > 0 && txn.Conditions[0].ExpectedRevision != found.replaced {
				continue
			}
			if !exists || call(p) < call(first) {
				first, exists = p, true
			}
		}
		if exists {
			done[first] = found.revision
		}
	}
	return done
}

// revisionOfPut is when the first put of a transaction that is on disk came there, or 0.
func (d diskContent) revisionOfPut(operation porcupine.Operation) int64 {
	for _, op := range operation.Input.(model.EtcdRequest).Txn.AllOperations() {
		if revision := d.puts[model.PutOptions{Key: op.Put.Key, Value: op.Put.Value}]; op.Type == model.PutOperation && revision != 0 {
			return revision
		}
	}
	return 0
}

func isFailedWrite(operation porcupine.Operation) bool {
	request := operation.Input.(model.EtcdRequest)
	return request.Type == model.Txn && !request.IsRead() && operation.Output.(model.MaybeEtcdResponse).Error != ""
}

func hasPut(operation porcupine.Operation) bool {
	return slices.ContainsFunc(operation.Input.(model.EtcdRequest).Txn.AllOperations(), func(op model.EtcdOperation) bool {
		return op.Type == model.PutOperation
	})
}

// deletes is the keys that an operation deleted, as its answer says, or without one might have deleted.
func deletes(operation porcupine.Operation) (keys []string) {
	request, answer := operation.Input.(model.EtcdRequest), operation.Output.(model.MaybeEtcdResponse)
	if request.Type != model.Txn {
		return nil
	}
	branch := request.Txn.AllOperations()
	if answer.Error == "" {
		branch = request.Txn.OperationsOnSuccess
		if answer.Txn.Failure {
			branch = request.Txn.OperationsOnFailure
		}
	}
	for i, operation := range branch {
		if operation.Type == model.DeleteOperation && (answer.Error != "" || answer.Txn.Results[i].Deleted > 0) {
			keys = append(keys, operation.Delete.Key)
		}
	}
	return keys
}
