// kube-apiserver as it is published, with one difference: how often it compares its caches with the store.
//
// Kubernetes compares every five to seven and a half minutes, and offers no flag for it. A trial that lasts less
// would never see it happen, so CONSISTENCY_CHECK_PERIOD can shorten that. Without it nothing differs.
package main

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apiserver/pkg/storage/cacher/consistency"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const variable = "CONSISTENCY_CHECK_PERIOD"

func main() {
	if value := os.Getenv(variable); value != "" {
		period, err := time.ParseDuration(value)
		if err != nil || period <= 0 {
			fmt.Fprintf(os.Stderr, "%s=%s is not a duration such as 20s\n", variable, value)
			os.Exit(2)
		}
		consistency.CheckPeriod = period
	}
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
