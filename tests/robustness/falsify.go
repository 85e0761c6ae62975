package main

import (
	"fmt"
	"slices"
	"sort"

	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// evidence is what the validators are given: what clients saw, and what is on the disk.
type evidence struct {
	reports   []report.ClientReport
	persisted []model.EtcdRequest
}

// Falsifications prove that the validators bite: each changes one thing in a true history, as a broken server would
// have, and the verdict must then be red. They change copies only and answer whether they found a place.
var falsifications = map[string]func(*evidence) bool{
	"write-lost": func(e *evidence) bool { // the disk lacks a write
		return e.changePersisted(func(all []model.EtcdRequest, i int) []model.EtcdRequest {
			return slices.Delete(all, i, i+1)
		})
	},
	"write-twice": func(e *evidence) bool {
		return e.changePersisted(func(all []model.EtcdRequest, i int) []model.EtcdRequest {
			return slices.Insert(all, i, all[i])
		})
	},
	"read-stale": func(e *evidence) bool { // more revisions behind than can be in flight at once
		return e.changeAnswer(func(request model.EtcdRequest, answer *model.MaybeEtcdResponse) bool {
			answer.Revision -= 100
			return request.Type == model.Range && request.Range.Revision == 0 && answer.Error == "" && answer.Revision > 1
		})
	},
	"write-misnumbered": func(e *evidence) bool { // by as many
		return e.changeAnswer(func(request model.EtcdRequest, answer *model.MaybeEtcdResponse) bool {
			answer.Revision += 100
			return request.Type == model.Txn && answer.Error == "" && !request.IsRead()
		})
	},
	"past-changed": func(e *evidence) bool { // a read of an old revision shows something else
		return e.changeAnswer(func(request model.EtcdRequest, answer *model.MaybeEtcdResponse) bool {
			if request.Type != model.Range || answer.Range == nil || len(answer.Range.KVs) == 0 {
				return false
			}
			shown := slices.Clone(answer.Range.KVs)
			shown[0].ModRevision--
			answer.Range = &model.RangeResponse{KVs: shown, Count: answer.Range.Count}
			return 0 < request.Range.Revision && request.Range.Revision < answer.Revision
		})
	},
	"event-lost": func(e *evidence) bool {
		return e.changeEvents(func(events []model.WatchEvent) []model.WatchEvent { return events[1:] })
	},
	"event-twice": func(e *evidence) bool {
		return e.changeEvents(func(events []model.WatchEvent) []model.WatchEvent {
			return slices.Insert(events, 0, events[0])
		})
	},
	"previous-wrong": func(e *evidence) bool {
		return e.changeEvents(func(events []model.WatchEvent) []model.WatchEvent {
			events[0].PrevValue = &model.ValueRevision{Value: model.ToValueOrHash("never"), ModRevision: 1, Version: 1}
			return events
		})
	},
}

func falsificationNames() []string {
	var names []string
	for name := range falsifications {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func falsify(genuine evidence, name string) (evidence, error) {
	e := evidence{slices.Clone(genuine.reports), slices.Clone(genuine.persisted)}
	if !falsifications[name](&e) {
		return e, fmt.Errorf("the history has no place for %s", name)
	}
	return e, nil
}

// changePersisted changes a put in the middle of what was persisted, one that had an effect for sure.
func (e *evidence) changePersisted(change func(all []model.EtcdRequest, i int) []model.EtcdRequest) bool {
	for i := len(e.persisted) / 2; i < len(e.persisted); i++ {
		txn := e.persisted[i].Txn
		if txn == nil || len(txn.Conditions) > 0 || len(txn.OperationsOnSuccess) != 1 {
			continue
		}
		if only := txn.OperationsOnSuccess[0]; only.Type == model.PutOperation && only.Put.LeaseID == 0 {
			e.persisted = change(e.persisted, i)
			return true
		}
	}
	return false
}

// changeAnswer changes the middle one of those answers to the first client with any for which the change is possible.
func (e *evidence) changeAnswer(change func(model.EtcdRequest, *model.MaybeEtcdResponse) bool) bool {
	for r := range e.reports {
		changed := map[int]model.MaybeEtcdResponse{}
		var places []int
		for i, operation := range e.reports[r].KeyValue {
			answer := operation.Output.(model.MaybeEtcdResponse)
			if change(operation.Input.(model.EtcdRequest), &answer) {
				places, changed[i] = append(places, i), answer
			}
		}
		if len(places) > 0 {
			middle := places[len(places)/2]
			e.reports[r].KeyValue = slices.Clone(e.reports[r].KeyValue)
			e.reports[r].KeyValue[middle].Output = changed[middle]
			return true
		}
	}
	return false
}

// changeEvents changes the second response with events of the first watch that has some more after it.
func (e *evidence) changeEvents(change func([]model.WatchEvent) []model.WatchEvent) bool {
	for r := range e.reports {
		for w, watch := range e.reports[r].Watch {
			var places []int
			for i, response := range watch.Responses {
				if len(response.Events) > 0 {
					places = append(places, i)
				}
			}
			if watch.Request.WithPrevKV && len(places) > 3 {
				watch.Responses = slices.Clone(watch.Responses)
				response := &watch.Responses[places[1]]
				response.Events = change(slices.Clone(response.Events))
				e.reports[r].Watch = slices.Clone(e.reports[r].Watch)
				e.reports[r].Watch[w] = watch
				return true
			}
		}
	}
	return false
}
