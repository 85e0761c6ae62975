// Package suite pins Kubernetes' storage layer, whose own tests storage-suite.sh runs.
package suite

import (
	_ "k8s.io/apiserver/pkg/storage/cacher"
	_ "k8s.io/apiserver/pkg/storage/etcd3"
)
