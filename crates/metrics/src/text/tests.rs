use std::time::Duration;

use expect_test::expect;

use super::*;

#[test]
fn a_page_is_what_scrapers_expect() {
    let mut page = Text::default();
    page.counter("puts_total", "Puts.", 3);
    page.gauge("size_bytes", "Size.", 1.5e9);
    page.heading("seconds", Type::Histogram, "Times.");
    let histogram = Histogram::new(&[0.001, 0.002, 0.004]);
    for millis in [1, 2, 3, 100] {
        histogram.observe(Duration::from_millis(millis));
    }
    page.histogram("seconds", &[("op", "a\"b")], &histogram);
    expect![[r##"
        # HELP puts_total Puts.
        # TYPE puts_total counter
        puts_total 3
        # HELP size_bytes Size.
        # TYPE size_bytes gauge
        size_bytes 1.5e+09
        # HELP seconds Times.
        # TYPE seconds histogram
        seconds_bucket{op="a\"b",le="0.001"} 1
        seconds_bucket{op="a\"b",le="0.002"} 2
        seconds_bucket{op="a\"b",le="0.004"} 3
        seconds_bucket{op="a\"b",le="+Inf"} 4
        seconds_sum{op="a\"b"} 0.106
        seconds_count{op="a\"b"} 4
    "##]]
    .assert_eq(&page.finish());
}

#[test]
fn numbers_keep_their_value() {
    for value in [0.0, 1.0, -1.0, 0.25, 1048576.0, 8388608.0, 2e-6, 1.79477630208e9] {
        assert_eq!(written(value).parse::<f64>().unwrap(), value);
    }
    assert_eq!(written(1048576.0), "1.048576e+06");
    assert_eq!(written(2e-6), "2e-06");
    assert_eq!(written(524288.0), "524288");
}
