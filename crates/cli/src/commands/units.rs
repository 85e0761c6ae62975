//! Numbers as people read them.

use vetch_api::vetch::Durations;

/// The two largest units of a time.
pub(crate) fn time(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0 if seconds < 1.0 => format!("{:.0} ms", seconds * 1000.0),
        0..60 => format!("{seconds:.0} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86400, whole % 86400 / 3600),
    }
}

/// The bound of the bucket with this quantile. None without samples; infinite above all bounds.
pub(crate) fn quantile(durations: &Durations, share: f64) -> Option<f64> {
    let total: u64 = durations.counts.iter().sum();
    let wanted = (total as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0;
    let bounds = durations.bounds.iter().copied().chain([f64::INFINITY]);
    durations.counts.iter().zip(bounds).find_map(|(count, bound)| {
        seen += count;
        (seen >= wanted && total > 0).then_some(bound)
    })
}

/// A bound as text.
pub(crate) fn at_most(bound: Option<f64>) -> String {
    match bound {
        None => "-".into(),
        Some(bound) if bound.is_infinite() => "> 8 s".into(),
        Some(bound) if bound < 1.0 => format!("{:.0} ms", bound * 1000.0),
        Some(bound) => format!("{bound:.0} s"),
    }
}

/// A rate per second, with a decimal if it is small.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second == 0.0 {
        "0".into()
    } else if per_second < 100.0 {
        format!("{per_second:.1}")
    } else {
        format!("{per_second:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        let cases = [
            (0.0, "0 ms"),
            (0.25, "250 ms"),
            (1.2, "1 s"),
            (61.0, "1 min 1 s"),
            (7300.0, "2 h 1 min"),
            (90_000.0, "1 d 1 h"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(time(seconds), shown);
        }
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let counts = vec![90, 9, 0, 1];
        let durations = Durations { bounds: vec![0.001, 0.002, 0.004], counts, sum_seconds: 0.0 };
        assert_eq!(quantile(&durations, 0.5), Some(0.001));
        assert_eq!(quantile(&durations, 0.99), Some(0.002));
        assert_eq!(quantile(&durations, 1.0), Some(f64::INFINITY));
        assert_eq!(quantile(&Durations::default(), 0.5), None);
        let empty = Durations { counts: vec![0; 4], ..durations };
        assert_eq!(quantile(&empty, 0.5), None);
        assert_eq!(at_most(Some(0.128)), "128 ms");
    }
}
