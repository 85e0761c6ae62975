//! The standard health service. It knows one name, the empty one, which stands for the whole
//! server.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, stream};
use tonic::{Request, Response, Status};
use vetch_api::health::health_check_response::ServingStatus;
use vetch_api::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse, health_server,
};

use super::service_context::ServiceContext;
use super::status;

type GrpcResult<T> = Result<Response<T>, Status>;

const WHOLE_SERVER: &str = "";

pub(super) struct HealthService(pub(super) ServiceContext);

#[tonic::async_trait]
impl health_server::Health for HealthService {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> GrpcResult<HealthCheckResponse> {
        if request.get_ref().service != WHOLE_SERVER {
            return Err(status::unknown_health_service());
        }
        Ok(Response::new(reading(ServingStatus::Serving)))
    }

    async fn list(&self, _: Request<HealthListRequest>) -> GrpcResult<HealthListResponse> {
        Ok(Response::new(all()))
    }

    /// Sends the status now and when it changes; stays open in between, also for an unknown name.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> GrpcResult<Self::WatchStream> {
        if request.get_ref().service != WHOLE_SERVER {
            let unknown = stream::once(async { Ok(reading(ServingStatus::ServiceUnknown)) });
            return Ok(Response::new(Box::pin(unknown.chain(stream::pending()))));
        }
        let node = self.0.node.clone();
        let serving = stream::once(async { Ok(reading(ServingStatus::Serving)) });
        let stopped = stream::once(async move {
            // The reason is in the log.
            let _ = node.stopped().await;
            Ok(reading(ServingStatus::NotServing))
        });
        Ok(Response::new(Box::pin(serving.chain(stopped))))
    }
}

/// Every name there is.
fn all() -> HealthListResponse {
    let whole = (WHOLE_SERVER.to_string(), reading(ServingStatus::Serving));
    HealthListResponse { statuses: [whole].into() }
}

fn reading(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
