//! Line plots as SVG, drawn here so that a report is one file and needs no network.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 45.0;
const COLOURS: [&str; 6] = ["#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#34495e"];

pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    /// A latency that is ten times higher is what matters, not one that is ten milliseconds higher.
    pub(crate) logarithmic: bool,
    pub(crate) series: Vec<Series>,
}

impl Plot<'_> {
    /// Nothing if there are fewer than two points to connect.
    pub(crate) fn svg(&self) -> Option<String> {
        if self.series.iter().map(|series| series.points.len()).max()? < 2 {
            return None;
        }
        let frame = Frame::around(self);
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\
             <text x=\"{LEFT}\" y=\"18\" class=\"title\">{}</text>",
            escape(self.title)
        );
        frame.axes(&mut out, self);
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let points: Vec<String> = series
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", frame.across(*x), frame.up(*y)))
                .collect();
            let _ = write!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                points.join(" ")
            );
            let (x, y) = (WIDTH - RIGHT + 12.0, TOP + 14.0 + 18.0 * index as f64);
            let name = escape(&series.name);
            let _ = write!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>");
        }
        out.push_str("</svg>\n");
        Some(out)
    }
}

struct Frame {
    most_x: f64,
    least_y: f64,
    most_y: f64,
    logarithmic: bool,
}

impl Frame {
    fn around(plot: &Plot<'_>) -> Frame {
        let all = || plot.series.iter().flat_map(|series| &series.points);
        let most = |pick: fn(&(f64, f64)) -> f64| all().map(pick).fold(0.0, f64::max).max(1e-9);
        let most_y = most(|point| point.1);
        let positive = all().map(|point| point.1).filter(|y| *y > 0.0);
        let least_y = if plot.logarithmic { positive.fold(most_y, f64::min) } else { 0.0 };
        let (least_y, most_y) = if plot.logarithmic {
            (
                10f64.powf(least_y.log10().floor()),
                10f64.powf(most_y.log10().ceil().max(least_y.log10().floor() + 1.0)),
            )
        } else {
            (0.0, most_y * 1.05)
        };
        Frame { most_x: most(|point| point.0), least_y, most_y, logarithmic: plot.logarithmic }
    }

    fn across(&self, x: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * x / self.most_x
    }

    fn up(&self, y: f64) -> f64 {
        let share = if self.logarithmic {
            (y.max(self.least_y) / self.least_y).log10() / (self.most_y / self.least_y).log10()
        } else {
            y / self.most_y
        };
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    }

    fn marks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.most_y / self.least_y).log10().round() as i32;
            return (0..=decades).map(|power| self.least_y * 10f64.powi(power)).collect();
        }
        (0..=4).map(|part| self.most_y * f64::from(part) / 4.0).collect()
    }

    fn axes(&self, out: &mut String, plot: &Plot<'_>) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for mark in self.marks() {
            let y = self.up(mark);
            let text = super::table::number(mark);
            let _ = write!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" class=\"grid\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        for part in 0..=4 {
            let value = self.most_x * f64::from(part) / 4.0;
            let x = self.across(value);
            let text = super::table::number(value);
            let y = bottom + 16.0;
            let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
        }
        let middle = (LEFT + right) / 2.0;
        let _ = write!(
            out,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text x=\"14\" y=\"{0}\" class=\"y\" transform=\"rotate(-90 14 {2})\">{3}</text>",
            HEIGHT - 8.0,
            escape(plot.x),
            HEIGHT / 2.0 + 40.0,
            escape(plot.y)
        );
    }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
