//! `/version`: the version of etcd that this replaces.

use http::{Method, Request, Response, StatusCode};
use tonic::body::Body;

use crate::http::answer;
use crate::version::{CLUSTER, SERVER, STORAGE};

pub(in crate::http) fn answer<B>(request: &Request<B>) -> Response<Body> {
    if request.method() != Method::GET {
        return answer::only_get();
    }
    let body = format!(r#"{{"etcdserver":"{SERVER}","etcdcluster":"{CLUSTER}","storage":"{STORAGE}"}}"#);
    answer::whole(StatusCode::OK, answer::JSON, body)
}
