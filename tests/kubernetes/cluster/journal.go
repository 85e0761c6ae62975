package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The servers of a journal, and the secret that they and their clients know. They listen on loopback only and are gone with
// their directory.
const (
	journals      = 3
	journalSecret = "trial"
)

// addJournal prepares the servers that the members' journal lives on, and returns the flags by which members find them; none if
// members keep their own.
func (s *Store) addJournal(o Options) ([]string, error) {
	if o.Journal == "" {
		return nil, nil
	}
	var routes, urls []string
	for n := range journals {
		port := o.Port + portJournal + 2*n
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", port))
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", port+1))
	}
	for n := range journals {
		name := fmt.Sprintf("journal-%d", n)
		config := filepath.Join(o.Dir, name+".conf")
		if err := os.WriteFile(config, []byte(journalConfig(o, n, name, routes)), 0o600); err != nil {
			return nil, err
		}
		s.Journal = append(s.Journal, &Process{Name: name, Command: []string{o.Journal, "-c", config}, Log: o.log(name)})
	}
	logins := filepath.Join(o.Dir, "journal.logins")
	text := fmt.Sprintf("app:%s\nsys:%s\n", journalSecret, journalSecret)
	flags := []string{"--journal=" + strings.Join(urls, ","), "--journal-login-file=" + logins}
	return flags, os.WriteFile(logins, []byte(text), 0o600)
}

func journalConfig(o Options, n int, name string, routes []string) string {
	port := o.Port + portJournal + 2*n
	user := func(name string) string { return fmt.Sprintf("users: [{user: %s, password: %s}]", name, journalSecret) }
	return strings.Join([]string{
		"server_name: " + name,
		fmt.Sprintf("listen: 127.0.0.1:%d", port),
		"max_payload: 8MB",
		fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always }", filepath.Join(o.Dir, name)),
		fmt.Sprintf("accounts { SYS { %s }, APP { jetstream: enabled, %s } }", user("sys"), user("app")),
		"system_account: SYS",
		fmt.Sprintf("cluster { name: vetch, listen: 127.0.0.1:%d, routes: [%s] }", port+1, strings.Join(routes, ", ")),
		"",
	}, "\n")
}
