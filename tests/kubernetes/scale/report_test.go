package main

import (
	"strings"
	"testing"
	"time"
)

func TestTheTableShowsMediansExtremesAndRatios(t *testing.T) {
	run := func(store string, values ...float64) *result {
		r := &result{Store: store, Version: store + " 1"}
		for _, value := range values {
			r.add(groupStore, "CPU", seconds, value)
		}
		r.addTo(groupLists, "pods", "number", count, 100*values[0])
		r.addTo(groupLists, "pods", "p99", milliseconds, 10*values[0])
		return r
	}
	text := report([]*result{run("etcd", 4, 2), run("vetch", 1), run("etcd", 9), run("vetch", 3)})
	for _, want := range []string{
		"| | vetch | etcd | ÷ |",
		"| CPU | 2 s (1–3) | 4 s (2–9) | 0.50 |",
		"| ms | number | p99 vetch | p99 etcd | ÷ |",
		"| pods | 900 | 20 (10–30) | 65 (40–90) | 0.31 |",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q in:\n%s", want, text)
		}
	}
}

func TestARunThatCannotBeComparedIsRefused(t *testing.T) {
	dir := t.TempDir()
	for n, nodes := range []int{10, 20} {
		r := &result{Store: "vetch", Begun: time.Unix(int64(n), 0).UTC(), Size: size{Nodes: nodes}}
		if err := r.write(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readResults(dir); err == nil || !strings.Contains(err.Error(), "another size") {
		t.Errorf("two sizes in one table: %v", err)
	}
}

func TestQuantilesAreTimesThatWereMeasured(t *testing.T) {
	sorted := make([]time.Duration, 100)
	for n := range sorted {
		sorted[n] = time.Duration(n + 1)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(sorted, q); got != want {
			t.Errorf("quantile %v: %v, not %v", q, got, want)
		}
	}
}

func TestOnlyRequestsOfTheMeasuredTimeCount(t *testing.T) {
	s := newStopwatch()
	s.measure(t.Context(), "early", func() error { return nil })
	s.measure(t.Context(), "across", func() error { s.reset(); return nil })
	s.measure(t.Context(), "late", func() error { return nil })
	for what, want := range map[string]int{"early": 0, "across": 0, "late": 1} {
		if got := len(s.sorted(what)); got != want {
			t.Errorf("%s: %d times, not %d", what, got, want)
		}
	}
}

func TestCountsAddWhatAListLeavesOut(t *testing.T) {
	got, err := countList([]byte(`{"metadata":{"remainingItemCount":41},"items":[{"metadata":{"name":"a"}}]}`))
	if err != nil || got != 42 {
		t.Errorf("%d, %v", got, err)
	}
}
