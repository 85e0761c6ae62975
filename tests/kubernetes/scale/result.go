package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"time"
)

// The units of rows.
const (
	milliseconds = "ms"
	microseconds = "µs"
	seconds      = "s"
	mebibytes    = "MiB"
	perSecond    = "/s"
	percent      = "%"
	count        = ""
)

// result is one run, as it is kept.
type result struct {
	Store      string    `json:"store"`
	Version    string    `json:"version"`
	Kubernetes string    `json:"kubernetes"`
	Machine    string    `json:"machine"`
	Note       string    `json:"note,omitempty"`
	Begun      time.Time `json:"begun"`
	Seconds    float64   `json:"seconds"`
	Size       size      `json:"size"`
	Rows       []row     `json:"rows"`
}

// row is one thing that was measured; once, or several times in a run.
type row struct {
	Group  string    `json:"group"`
	Name   string    `json:"name"`
	Column string    `json:"column,omitempty"` // such as p99, where a row has several
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

func newResult(p plan, store string) *result {
	return &result{
		Store: store, Version: version(p.servers[store], store), Kubernetes: version(filepath.Join(p.binaries, "kube-apiserver"), "kubernetes"),
		Machine: machine(p.dir), Note: p.note, Begun: time.Now().UTC().Truncate(time.Second), Size: p.size,
	}
}

// add adds a value to the row of that name.
func (r *result) add(group, name, unit string, value float64) { r.addTo(group, name, "", unit, value) }

func (r *result) addTo(group, name, column, unit string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	for n := range r.Rows {
		if r.Rows[n].Group == group && r.Rows[n].Name == name && r.Rows[n].Column == column {
			r.Rows[n].Values = append(r.Rows[n].Values, value)
			return
		}
	}
	r.Rows = append(r.Rows, row{Group: group, Name: name, Column: column, Unit: unit, Values: []float64{value}})
}

func (r *result) write(dir string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	name := fmt.Sprintf("run-%s-%s.json", r.Begun.Format("20060102-150405"), r.Store)
	return os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644)
}

// readResults reads all runs of a directory, the oldest first. Runs of different sizes cannot be compared.
func readResults(dir string) ([]*result, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "run-*.json"))
	if err != nil {
		return nil, err
	}
	sort.Strings(paths)
	var results []*result
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r := &result{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(results) > 0 && results[0].Size != r.Size {
			return nil, fmt.Errorf("%s is of another size than the first run: use another directory", path)
		}
		results = append(results, r)
	}
	return results, nil
}

func processors() float64 { return float64(runtime.NumCPU()) }
