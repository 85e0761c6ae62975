package cluster

import (
	"fmt"
	"maps"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Options describe a cluster. Dir, Binaries and StoreBinary are needed; the rest has defaults.
type Options struct {
	Dir         string // holds data, keys and logs; is created
	Binaries    string // what build.sh printed
	StoreBinary string // vetch or etcd
	StoreFlags  []string
	Members     int    // servers of the store; 1 if not given
	Journal     string // nats-server: the members are vetch, and share a journal on three of these
	// TLS makes the store serve by TLS alone and demand certificates of its clients, as kubeadm sets it up.
	TLS bool

	// Port is the first of the 500 ports that the cluster may use, all on loopback.
	Port int

	APIServers     int               // how many on the one store; 1 if not given
	APIServerFlags []string          // for all of them
	Gates          map[string]bool   // feature gates of all API servers
	GatesOf        []map[string]bool // further gates of single API servers, by number
	// CompactionInterval is how often the API servers compact the store; Kubernetes' default if not given.
	CompactionInterval time.Duration
	// EventTTL is how long events live; Kubernetes' default if not given.
	EventTTL time.Duration
	// ConsistencyPeriod is how often the API servers compare each cache with the store, and panic if they differ. Up to
	// half of it is added at random. Kubernetes' default if not given; never off.
	ConsistencyPeriod time.Duration

	ControllerManagerFlags []string
	SchedulerFlags         []string
	KwokFlags              []string
	NoControllers          bool // store and API servers only
}

// The ports, counted from Options.Port.
const (
	portStore             = 0
	portStorePeer         = 1
	portControllerManager = 5
	portScheduler         = 6
	portKwok              = 7
	portAPIServer         = 10
	portMember            = 30 // and its peer port behind it; the first member has portStore and portStorePeer
	portJournal           = 40 // and its port for the others behind it
	portKubelet           = 100
)

const (
	mostAPIServers = 10
	mostKubelets   = 400
)

func (o Options) log(name string) string { return filepath.Join(o.Dir, "logs", name+".log") }

func (o Options) members() int { return max(o.Members, 1) }

// memberName is "store" for the first: a store of one has the name it always had.
func (o Options) memberName(n int) string {
	if n == 0 {
		return "store"
	}
	return fmt.Sprintf("store-%d", n)
}

func (o Options) memberURL(n int) string { return fmt.Sprintf("http://127.0.0.1:%d", o.memberPort(n)) }

func (o Options) peerURL(n int) string { return fmt.Sprintf("http://127.0.0.1:%d", o.memberPort(n)+1) }

func (o Options) memberPort(n int) int {
	if n == 0 {
		return o.Port + portStore
	}
	return o.Port + portMember + 2*n
}

func (o Options) initialCluster() string {
	var all []string
	for n := range o.members() {
		all = append(all, o.memberName(n)+"="+o.peerURL(n))
	}
	return strings.Join(all, ",")
}

func (o Options) binary(name string) string { return filepath.Join(o.Binaries, name) }

// apiServerFlags are those of one API server that follow from the options alone.
func (o Options) apiServerFlags(n int) []string {
	var flags []string
	if o.CompactionInterval > 0 {
		flags = append(flags, "--etcd-compaction-interval="+o.CompactionInterval.String())
	}
	if o.EventTTL > 0 {
		flags = append(flags, "--event-ttl="+o.EventTTL.String())
	}
	if gates := o.gates(n); gates != "" {
		flags = append(flags, "--feature-gates="+gates)
	}
	return append(flags, o.APIServerFlags...)
}

func (o Options) gates(n int) string {
	all := maps.Clone(o.Gates)
	if n < len(o.GatesOf) {
		if all == nil {
			all = map[string]bool{}
		}
		maps.Copy(all, o.GatesOf[n])
	}
	var gates []string
	for name, on := range all {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	sort.Strings(gates)
	return strings.Join(gates, ",")
}
