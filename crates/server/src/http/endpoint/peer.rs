//! The pages of a peer port: members and version. There is no Raft, so what only another member
//! would request is missing.

use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tonic::body::Body;

use super::version;
use crate::http::{ServerState, answer};

const CLUSTER_ID: HeaderName = HeaderName::from_static("x-etcd-cluster-id");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain");

pub(in crate::http) fn answer<B>(request: &Request<B>, shared: &ServerState) -> Response<Body> {
    let page = match request.uri().path() {
        "/version" => return version::answer(request),
        "/members" => (answer::JSON, members(shared)),
        "/downgrade/enabled" => (PLAIN, "false".to_string()),
        _ => return answer::not_found(),
    };
    if request.method() != Method::GET {
        return answer::only_get();
    }
    let mut response = answer::whole(StatusCode::OK, page.0, page.1);
    let cluster = format!("{:x}", shared.node.identity().cluster_id);
    let cluster = HeaderValue::from_str(&cluster).expect("digits are a valid header");
    response.headers_mut().insert(CLUSTER_ID, cluster);
    response
}

fn members(shared: &ServerState) -> String {
    let settings = &shared.settings;
    let urls = |urls: &[String]| serde_json::Value::from(urls.to_vec()).to_string();
    let (peer, client) = (urls(&settings.peer_urls), urls(&settings.client_urls));
    let name = serde_json::Value::from(settings.name.as_str());
    let id = shared.node.identity().member_id;
    format!("[{{\"id\":{id},\"peerURLs\":{peer},\"name\":{name},\"clientURLs\":{client}}}]\n")
}
