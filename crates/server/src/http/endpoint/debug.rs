//! `/debug/vars`: the variables of Go's expvar page that mean something here.

use http::{HeaderValue, Response, StatusCode};
use tonic::body::Body;

use crate::http::answer;

pub(in crate::http) fn vars() -> Response<Body> {
    let arguments: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(u64::MAX);
    let arguments = serde_json::Value::from(arguments);
    let body = format!("{{\n\"cmdline\": {arguments},\n\"file_descriptor_limit\": {limit}\n}}\n");
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    answer::whole(StatusCode::OK, json, body)
}
