package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that can be started, killed and started again. All its runs write to one log.
type Process struct {
	Name    string
	Command []string
	Env     []string
	Log     string

	// Supervised processes are started again when they end unasked, as a kubelet does with static pods.
	Supervised bool

	mu      sync.Mutex
	command *exec.Cmd
	ended   chan struct{}
	asked   bool
	starts  int
	deaths  []string
}

// Start starts the program; it must not be running.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command != nil {
		return fmt.Errorf("%s is already running", p.Name)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "--- start %d at %s: %s\n", p.starts+1, time.Now().UTC().Format(time.RFC3339Nano),
		strings.Join(p.Command, " "))
	command := exec.Command(p.Command[0], p.Command[1:]...)
	command.Env = append(os.Environ(), p.Env...)
	command.Stdout, command.Stderr = log, log
	command.Dir = filepath.Dir(p.Log)
	// A group of its own, so that an interrupt of the terminal is ours to handle; and no survivors if we are killed.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s does not start: %w", p.Name, err)
	}
	p.command, p.ended, p.asked = command, make(chan struct{}), false
	p.starts++
	go p.await(command, p.ended)
	return nil
}

// await notes how a run ended, and starts a supervised process again if nobody asked it to end.
func (p *Process) await(command *exec.Cmd, ended chan struct{}) {
	err := command.Wait()
	p.mu.Lock()
	unasked := !p.asked
	p.command = nil
	if unasked {
		p.deaths = append(p.deaths, fmt.Sprintf("%s ended by itself at %s (%v); see %s", p.Name,
			time.Now().UTC().Format(time.RFC3339), exit(err), p.Log))
	}
	close(ended)
	p.mu.Unlock()
	if unasked && p.Supervised {
		time.Sleep(time.Second)
		// It may have been started by hand meanwhile, which is as good.
		_ = p.Start()
	}
}

func exit(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// Kill ends the process as a crash would, and returns when it is gone.
func (p *Process) Kill() { p.signal(syscall.SIGKILL, time.Minute) }

// Stop asks the process to end, and kills it if it does not within the given time.
func (p *Process) Stop(patience time.Duration) { p.signal(syscall.SIGTERM, patience) }

func (p *Process) signal(signal syscall.Signal, patience time.Duration) {
	p.mu.Lock()
	command, ended := p.command, p.ended
	p.asked = true
	p.mu.Unlock()
	if command == nil {
		return
	}
	_ = command.Process.Signal(signal)
	select {
	case <-ended:
	case <-time.After(patience):
		_ = command.Process.Kill()
		<-ended
	}
}

// Running tells whether the process is there.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.command != nil
}

// Pid is the process's id, or 0 if it does not run.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return 0
	}
	return p.command.Process.Pid
}

// Starts counts the runs so far.
func (p *Process) Starts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// Deaths lists the ends that nobody asked for.
func (p *Process) Deaths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.deaths...)
}

// Usage is what a process has used of the machine.
type Usage struct {
	CPU     time.Duration // user and system, since its start
	RSS     int64         // bytes of memory now
	PeakRSS int64         // bytes of memory at most
}

// Usage reads what the running process has used so far.
func (p *Process) Usage() (Usage, error) {
	pid := p.Pid()
	if pid == 0 {
		return Usage{}, errors.New(p.Name + " does not run")
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	// The fields are counted after the name, which is in brackets and may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return Usage{}, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = time.Second / 100 // Linux tells user space 100 ticks a second whatever it uses itself.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		CPU:     time.Duration(user+system) * tick,
		RSS:     kibibytes(string(status), "VmRSS:"),
		PeakRSS: kibibytes(string(status), "VmHWM:"),
	}, nil
}

func kibibytes(status, field string) int64 {
	for line := range strings.Lines(status) {
		if rest, found := strings.CutPrefix(line, field); found {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// GiveUp marks an error after which Until has nothing left to wait for.
func GiveUp(err error) error { return final{err} }

// Until asks every interval until the answer is yes, and says what it waited for when the time is over, or when an error
// is final.
func Until(ctx context.Context, patience, interval time.Duration, what string, ask func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	var last error
	for {
		yes, err := ask()
		if yes && err == nil {
			return nil
		}
		if end := (final{}); errors.As(err, &end) {
			return fmt.Errorf("waiting for %s: %w", what, end.error)
		}
		if err != nil {
			last = err
		}
		if time.Now().After(deadline) {
			if last != nil {
				return fmt.Errorf("waited %v for %s; last error: %w", patience, what, last)
			}
			return fmt.Errorf("waited %v for %s", patience, what)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(interval):
		}
	}
}
