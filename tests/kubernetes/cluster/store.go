package cluster

import (
	"context"
	"strings"
	"time"
)

// Store holds everything: vetch, or etcd for comparison. It is one server, or several that are one store.
type Store struct {
	*Member            // the first
	Members []*Member  // all of them
	Journal []*Process // what the members' journal lives on, if that is not their own disks

	// Takeovers is how long it took after each kill of the server that wrote until another one did.
	Takeovers []time.Duration

	access []string // the flags by which an API server may talk to it
}

func newStore(o Options, id identity) (*Store, error) {
	s := &Store{}
	journal, err := s.addJournal(o)
	if err != nil {
		return nil, err
	}
	var urls []string
	for n := range o.members() {
		member, err := newMember(o, id, n, journal)
		if err != nil {
			return nil, err
		}
		s.Members = append(s.Members, member)
		urls = append(urls, member.URL)
	}
	s.Member = s.Members[0]
	s.access = []string{"--etcd-servers=" + strings.Join(urls, ",")}
	if o.TLS {
		s.access = append(s.access,
			"--etcd-cafile="+id.file("ca.crt"),
			"--etcd-certfile="+id.file("client.crt"),
			"--etcd-keyfile="+id.file("client.key"),
		)
	}
	return s, nil
}

// Start starts the store, all of its servers, and waits until they serve.
func (s *Store) Start(ctx context.Context) error {
	for _, process := range s.Journal {
		if err := process.Start(); err != nil {
			return err
		}
	}
	var starts []func(context.Context) error
	for _, member := range s.Members {
		starts = append(starts, member.Start)
	}
	return together(ctx, starts)
}

// Processes lists all of the store, in the order in which they end best.
func (s *Store) Processes() []*Process {
	var all []*Process
	for _, member := range s.Members {
		all = append(all, member.Process)
	}
	return append(all, s.Journal...)
}

// Stop asks all of the store to end, one after the other.
func (s *Store) Stop(patience time.Duration) {
	for _, process := range s.Processes() {
		process.Stop(patience)
	}
}

// Crash kills the server that writes, without notice, and starts it again on what it left behind. Where there are others, they must
// have taken over before it comes back.
func (s *Store) Crash(ctx context.Context) error {
	if len(s.Members) == 1 {
		s.Kill()
		return s.Member.Start(ctx)
	}
	writer, err := s.Writer(ctx, nil)
	if err != nil {
		return err
	}
	writer.Kill()
	begun := time.Now()
	if _, err := s.Writer(ctx, writer); err != nil {
		return err
	}
	s.Takeovers = append(s.Takeovers, time.Since(begun))
	return writer.Start(ctx)
}

// Writer waits until a member other than `not` leads and serves, and returns it.
func (s *Store) Writer(ctx context.Context, not *Member) (*Member, error) {
	var writer *Member
	err := Until(ctx, time.Minute, 20*time.Millisecond, "a member to lead", func() (bool, error) {
		for _, member := range s.Members {
			if member == not || !member.Running() {
				continue
			}
			leads, err := member.leads(ctx)
			if err == nil && leads && member.healthy(ctx) {
				writer = member
				return true, nil
			}
		}
		return false, nil
	})
	return writer, err
}
