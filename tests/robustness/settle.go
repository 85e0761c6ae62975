package main

import (
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"go.etcd.io/etcd/tests/v3/robustness/model"
)

// What became of a failed request is unknown to its client, but often not to the disk, and it is settled here
// before the validators search for a linearization. Upstream does the same, but not for requests that delete a key
// which others deleted too. The search tries each of those at every step until the end: a few in a history of 20,000
// operations exhaust its five minutes, or the memory.
//
//   - Every put of the traffic has a value of its own, so a transaction none of whose puts is on disk never happened.
//   - If clients were told of every deletion of a key that is on disk, a failed request deleted nothing of it. If
//     there is one more, and one failed request, then that is what it did.
func (e evidence) settled() evidence {
	disk := e.deeds()
	reports := slices.Clone(e.reports)
	for r := range reports {
		var operations []porcupine.Operation
		for _, operation := range reports[r].KeyValue {
			if isFailedWrite(operation) {
				txn := operation.Input.(model.EtcdRequest).Txn
				if disk.hadNoEffect(txn) {
					continue
				}
				if revision := disk.revisionOfDelete(txn); revision != 0 {
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

// deeds is what the disk knows and clients were not told.
type deeds struct {
	puts map[model.PutOptions]bool
	// The revisions that deleted a key although no client was told so, and how many failed requests would have.
	// Absent if there are leases: a key can then go without being deleted by anybody.
	deletes   map[string][]int64
	suspected map[string]int
}

func (e evidence) deeds() deeds {
	d := deeds{map[model.PutOptions]bool{}, map[string][]int64{}, map[string]int{}}
	for _, event := range model.NewReplay(e.persisted).Events {
		switch event.Type {
		case model.PutOperation:
			d.puts[model.PutOptions{Key: event.Key, Value: event.Value}] = true
		case model.DeleteOperation:
			d.deletes[event.Key] = append(d.deletes[event.Key], event.Revision)
		}
	}
	if slices.ContainsFunc(e.persisted, func(r model.EtcdRequest) bool { return r.Type == model.LeaseGrant }) {
		d.deletes = nil
		return d
	}
	for _, r := range e.reports {
		for _, operation := range r.KeyValue {
			for _, key := range deletes(operation) {
				if isFailedWrite(operation) {
					d.suspected[key]++
				} else {
					revision := operation.Output.(model.MaybeEtcdResponse).Revision
					d.deletes[key] = slices.DeleteFunc(d.deletes[key], func(r int64) bool { return r == revision })
				}
			}
		}
	}
	return d
}

func (d deeds) hadNoEffect(txn *model.TxnRequest) bool {
	puts, deletes := 0, 0
	for _, operation := range txn.AllOperations() {
		switch operation.Type {
		case model.PutOperation:
			if d.puts[model.PutOptions{Key: operation.Put.Key, Value: operation.Put.Value}] {
				return false
			}
			puts++
		case model.DeleteOperation:
			if d.deletes == nil || len(d.deletes[operation.Delete.Key]) > 0 {
				deletes++
			}
		}
	}
	return puts > 0 || deletes == 0
}

// revisionOfDelete is when a failed request that is nothing but a delete took effect, if that is known.
func (d deeds) revisionOfDelete(txn *model.TxnRequest) int64 {
	operations := txn.OperationsOnSuccess
	if len(operations) != 1 || operations[0].Type != model.DeleteOperation {
		return 0
	}
	key := operations[0].Delete.Key
	if len(d.deletes[key]) != 1 || d.suspected[key] != 1 {
		return 0
	}
	return d.deletes[key][0]
}

func isFailedWrite(operation porcupine.Operation) bool {
	request := operation.Input.(model.EtcdRequest)
	return request.Type == model.Txn && !request.IsRead() && operation.Output.(model.MaybeEtcdResponse).Error != ""
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
