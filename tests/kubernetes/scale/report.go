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
	for _, group := range groups {
		if columns := columnsOf(results, group); len(columns) > 0 {
			wide(&b, results, group, columns)
		} else {
			narrow(&b, results, group)
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

// rowsOf lists the rows of a group, without columns, in the order in which they were first seen.
func rowsOf(results []*result, group string) []row {
	var rows []row
	for _, r := range results {
		for _, row := range r.Rows {
			if row.Group == group && !slices.ContainsFunc(rows, row.same) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func (r row) same(other row) bool { return r.Name == other.Name }

// columnsOf lists the columns that a group has of those that are worth a place in the table. The others are in the runs.
func columnsOf(results []*result, group string) []string {
	shown := []string{"mean", "p50", "p99"}
	return slices.DeleteFunc(shown, func(column string) bool {
		for _, r := range results {
			for _, row := range r.Rows {
				if row.Group == group && row.Column == column {
					return false
				}
			}
		}
		return true
	})
}

// narrow is a table with one column for each store.
func narrow(b *strings.Builder, results []*result, group string) {
	rows, stores := rowsOf(results, group), storesOf(results)
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n| |%s\n|---|%s\n", group, titles("", stores), strings.Repeat("---:|", width(stores)))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |%s\n", row.Name, cells(results, stores, row))
	}
}

// wide is a table with several columns for each store, and the number of values at most.
func wide(b *strings.Builder, results []*result, group string, columns []string) {
	stores := storesOf(results)
	fmt.Fprintf(b, "\n### %s\n\n| ms | number |", group)
	for _, column := range columns {
		fmt.Fprint(b, titles(column+" ", stores))
	}
	fmt.Fprintf(b, "\n|---|---:|%s\n", strings.Repeat("---:|", width(stores)*len(columns)))
	for _, row := range rowsOf(results, group) {
		row.Unit, row.Column = "", "number"
		number := 0.0
		for _, store := range stores {
			number = max(number, slices.Max(append(valuesOf(results, store, row), 0)))
		}
		fmt.Fprintf(b, "| %s | %.0f |", row.Name, number)
		for _, column := range columns {
			row.Column = column
			fmt.Fprint(b, cells(results, stores, row))
		}
		fmt.Fprintln(b)
	}
}

func titles(prefix string, stores []string) string {
	var b strings.Builder
	for _, store := range stores {
		fmt.Fprintf(&b, " %s%s |", prefix, store)
	}
	if len(stores) == 2 {
		fmt.Fprint(&b, " ÷ |")
	}
	return b.String()
}

func width(stores []string) int {
	if len(stores) == 2 {
		return 3
	}
	return len(stores)
}

// cells are the median of all values of a row for each store, with the extremes if there are several, and the ratio.
func cells(results []*result, stores []string, row row) string {
	var b strings.Builder
	var medians []float64
	for _, store := range stores {
		values := valuesOf(results, store, row)
		if len(values) == 0 {
			fmt.Fprint(&b, " |")
			continue
		}
		slices.Sort(values)
		medians = append(medians, median(values))
		fmt.Fprint(&b, " ", strings.TrimSpace(number(median(values))+" "+row.Unit))
		if len(values) > 1 && values[0] != values[len(values)-1] {
			fmt.Fprintf(&b, " (%s–%s)", number(values[0]), number(values[len(values)-1]))
		}
		fmt.Fprint(&b, " |")
	}
	if len(stores) == 2 {
		if len(medians) == 2 && medians[1] != 0 {
			fmt.Fprintf(&b, " %.2f", medians[0]/medians[1])
		}
		fmt.Fprint(&b, " |")
	}
	return b.String()
}

func valuesOf(results []*result, store string, wanted row) []float64 {
	var values []float64
	for _, r := range results {
		for _, row := range r.Rows {
			if r.Store == store && row.Group == wanted.Group && row.same(wanted) && row.Column == wanted.Column {
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
