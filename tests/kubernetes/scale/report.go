package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeReport makes the table of all runs in a directory, and prints it.
func writeReport(dir string) error {
	results, err := readResults(dir)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return fmt.Errorf("%s holds no runs", dir)
	}
	text := report(results)
	path := filepath.Join(dir, "table.md")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Print(text)
	fmt.Printf("\nscale: the table is %s, the runs are beside it\n", path)
	return nil
}

func report(results []*result) string {
	var b strings.Builder
	head(&b, results)
	stores := storesOf(results)
	for _, group := range groups {
		names, units := rowsOf(results, group)
		if len(names) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n| |", group)
		for _, store := range stores {
			fmt.Fprintf(&b, " %s |", store)
		}
		if len(stores) == 2 {
			fmt.Fprintf(&b, " %s ÷ %s |", stores[0], stores[1])
		}
		fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---:|", 2*len(stores)-1))
		for _, name := range names {
			line(&b, results, stores, group, name, units[name])
		}
	}
	return b.String()
}

// head says what was run, and on what.
func head(b *strings.Builder, results []*result) {
	first := results[0]
	fmt.Fprintf(b, "%d nodes, %d pods (%d of them made by Deployments and bound by the scheduler, the others created bound);\n",
		first.Size.Nodes, first.Size.Pods, first.Size.Scheduled)
	fmt.Fprintf(b, "steady phase of %v with %g pods a second replaced; compaction every %v; %s;\n", first.Size.Steady,
		first.Size.Churn, first.Size.Compact, first.Kubernetes)
	fmt.Fprintf(b, "%s.\n\n", first.Machine)
	for _, r := range results {
		note := r.Note
		if note != "" {
			note = "; " + note
		}
		fmt.Fprintf(b, "- %s: %s, %.0f s, %s%s\n", r.Begun.Format("2006-01-02 15:04 MST"), r.Store, r.Seconds, r.Version, note)
	}
}

// storesOf lists the stores: vetch first, so that the last column says how many times etcd's its values are.
func storesOf(results []*result) []string {
	var stores []string
	for _, r := range results {
		if !slices.Contains(stores, r.Store) {
			stores = append(stores, r.Store)
		}
	}
	slices.Sort(stores)
	slices.Reverse(stores)
	return stores
}

// rowsOf lists the rows of a group in the order in which they were first seen.
func rowsOf(results []*result, group string) ([]string, map[string]string) {
	var names []string
	units := map[string]string{}
	for _, r := range results {
		for _, row := range r.Rows {
			if _, known := units[row.Name]; row.Group == group && !known {
				names = append(names, row.Name)
				units[row.Name] = row.Unit
			}
		}
	}
	return names, units
}

// line is the median of all values of a row for each store, with the extremes if there are several.
func line(b *strings.Builder, results []*result, stores []string, group, name, unit string) {
	fmt.Fprintf(b, "| %s |", name)
	var medians []float64
	for _, store := range stores {
		values := valuesOf(results, store, group, name)
		if len(values) == 0 {
			fmt.Fprint(b, " |")
			continue
		}
		slices.Sort(values)
		middle := median(values)
		medians = append(medians, middle)
		fmt.Fprintf(b, " %s", number(middle))
		if unit != "" {
			fmt.Fprintf(b, " %s", unit)
		}
		if len(values) > 1 {
			fmt.Fprintf(b, " (%s–%s)", number(values[0]), number(values[len(values)-1]))
		}
		fmt.Fprint(b, " |")
	}
	if len(stores) == 2 {
		if len(medians) == 2 && medians[1] != 0 && unit != count {
			fmt.Fprintf(b, " %.2f |", medians[0]/medians[1])
		} else {
			fmt.Fprint(b, " |")
		}
	}
	fmt.Fprintln(b)
}

func valuesOf(results []*result, store, group, name string) []float64 {
	var values []float64
	for _, r := range results {
		for _, row := range r.Rows {
			if r.Store == store && row.Group == group && row.Name == name {
				values = append(values, row.Values...)
			}
		}
	}
	return values
}

func median(sorted []float64) float64 {
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// number writes three digits that matter.
func number(value float64) string {
	switch {
	case value >= 100 || value == float64(int64(value)):
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}
