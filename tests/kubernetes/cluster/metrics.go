package cluster

import (
	"io"
	"math"
	"sort"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is one reading of a process's metrics, by name.
type Metrics map[string]*dto.MetricFamily

// Labels selects series: those that have all of these values.
type Labels map[string]string

// ParseMetrics reads Prometheus' text format.
func ParseMetrics(text io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
	return families, err
}

// Sum adds the values of the selected series: counters, gauges, or the counts of histograms.
func (m Metrics) Sum(name string, labels Labels) float64 {
	var sum float64
	for _, series := range m.selected(name, labels) {
		switch {
		case series.Counter != nil:
			sum += series.Counter.GetValue()
		case series.Gauge != nil:
			sum += series.Gauge.GetValue()
		case series.Histogram != nil:
			sum += float64(series.Histogram.GetSampleCount())
		case series.Untyped != nil:
			sum += series.Untyped.GetValue()
		}
	}
	return sum
}

// Histogram adds up the selected series of a histogram.
func (m Metrics) Histogram(name string, labels Labels) Histogram {
	h := Histogram{buckets: map[float64]float64{}}
	for _, series := range m.selected(name, labels) {
		if series.Histogram == nil {
			continue
		}
		h.Count += float64(series.Histogram.GetSampleCount())
		h.Sum += series.Histogram.GetSampleSum()
		for _, bucket := range series.Histogram.Bucket {
			h.buckets[bucket.GetUpperBound()] += float64(bucket.GetCumulativeCount())
		}
	}
	return h
}

func (m Metrics) selected(name string, labels Labels) []*dto.Metric {
	family := m[name]
	if family == nil {
		return nil
	}
	var found []*dto.Metric
series:
	for _, series := range family.Metric {
		has := map[string]string{}
		for _, pair := range series.Label {
			has[pair.GetName()] = pair.GetValue()
		}
		for name, value := range labels {
			if has[name] != value {
				continue series
			}
		}
		found = append(found, series)
	}
	return found
}

// Histogram is a sum of series with equal buckets.
type Histogram struct {
	Count, Sum float64
	buckets    map[float64]float64 // upper bound to number of values at or below it
}

// Since is what was added after an earlier reading.
func (h Histogram) Since(earlier Histogram) Histogram {
	d := Histogram{Count: h.Count - earlier.Count, Sum: h.Sum - earlier.Sum, buckets: map[float64]float64{}}
	for bound, count := range h.buckets {
		d.buckets[bound] = count - earlier.buckets[bound]
	}
	return d
}

// Quantile estimates the value below which a share q lies, as Prometheus does: evenly spread within a bucket.
// It is NaN for an empty histogram, and the last finite bound if the value lies beyond all of them.
func (h Histogram) Quantile(q float64) float64 {
	if h.Count == 0 {
		return math.NaN()
	}
	bounds := make([]float64, 0, len(h.buckets))
	for bound := range h.buckets {
		bounds = append(bounds, bound)
	}
	sort.Float64s(bounds)
	rank := q * h.Count
	lower, below := 0.0, 0.0
	for _, bound := range bounds {
		upTo := h.buckets[bound]
		if upTo >= rank {
			if math.IsInf(bound, 1) || upTo == below {
				return lower
			}
			return lower + (bound-lower)*(rank-below)/(upTo-below)
		}
		lower, below = bound, upTo
	}
	return lower
}
