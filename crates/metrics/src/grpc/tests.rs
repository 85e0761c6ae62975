use super::*;

fn line<'a>(page: &'a str, start: &str) -> Option<&'a str> {
    page.lines().find(|l| l.starts_with(start))
}

fn written(metrics: &GrpcMetrics) -> String {
    let mut page = Text::default();
    metrics.write(&mut page);
    page.finish()
}

#[tokio::test]
async fn a_refused_call_is_counted_by_its_code() {
    let metrics = GrpcMetrics::new(true, Duration::MAX);
    let request = Request::builder()
        .uri("/etcdserverpb.KV/Range")
        .header("content-type", "application/grpc")
        .header("client-api-version", "3.7")
        .body(Body::default())
        .unwrap();
    metrics.observed(request, async |_| Answer::Response(Status::unimplemented("no").into_http())).await;
    let page = written(&metrics);
    let labels = r#"grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary""#;
    for expected in [
        format!("grpc_server_started_total{{{labels}}} 1"),
        format!("grpc_server_handled_total{{grpc_code=\"Unimplemented\",{labels}}} 1"),
        format!("grpc_server_handled_total{{grpc_code=\"OK\",{labels}}} 0"),
        format!("grpc_server_handling_seconds_count{{{labels}}} 1"),
        "etcd_server_client_requests_total{client_api_version=\"3.7\",type=\"unary\"} 1".to_string(),
        "etcd_server_request_duration_seconds_count{success=\"false\",type=\"Range\"} 1".to_string(),
    ] {
        assert_eq!(line(&page, &expected), Some(expected.as_str()));
    }
}

#[tokio::test]
async fn a_call_given_up_is_cancelled() {
    let metrics = GrpcMetrics::new(false, Duration::MAX);
    let counters = metrics.methods[0].clone();
    let call = Call::begin(counters.clone(), metrics.traffic.clone());
    assert_eq!(metrics.open(), 1);
    drop(call);
    assert_eq!(metrics.open(), 0);
    let cancelled = CODES.iter().position(|c| *c == Code::Cancelled).unwrap();
    assert_eq!(counters.handled[cancelled].load(Relaxed), 1);
}

#[test]
fn clients_cannot_make_the_page_grow_for_ever() {
    let metrics = GrpcMetrics::new(false, Duration::MAX);
    for i in 0..10 * CLIENT_VERSIONS_MAX {
        let request = Request::builder().header("client-api-version", format!("v{i}")).body(()).unwrap();
        metrics.count_client(&request, Kind::Unary);
    }
    assert!(metrics.clients.read().len() <= CLIENT_VERSIONS_MAX + 1);
}
