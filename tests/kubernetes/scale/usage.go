package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"vetch.invalid/trials/cluster"
)

// sampler reads once a second what the processes use. Processes are restarted, so what ended runs used is added up.
type sampler struct {
	cluster *cluster.Cluster
	ended   chan struct{}
	once    sync.Once
	group   sync.WaitGroup

	mu     sync.Mutex
	peaks  map[string]int64 // bytes of memory since the beginning, by process
	window *window
	pid    int           // of the store when it was last seen
	last   time.Duration // the CPU time it had used by then
	before time.Duration // the CPU time of its former runs
}

// window is what was seen in a stretch of time.
type window struct {
	begun    time.Time
	cpu      map[string]time.Duration // of each process when it began, then what was used
	busy     float64                  // likewise, seconds of all of the machine's processors
	memory   []int64                  // of the store, once a second
	disk     int64                    // the most seen
	duration time.Duration
}

func watchUsage(c *cluster.Cluster) *sampler {
	s := &sampler{cluster: c, ended: make(chan struct{}), peaks: map[string]int64{}}
	s.group.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-s.ended:
				return
			case <-ticker.C:
				s.sample()
			}
		}
	})
	return s
}

func (s *sampler) stop() {
	s.once.Do(func() { close(s.ended) })
	s.group.Wait()
}

func (s *sampler) sample() {
	disk := diskSize(s.cluster.Store.Data)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, process := range s.cluster.Processes() {
		usage, err := process.Usage()
		if err != nil {
			continue // It is being restarted.
		}
		s.peaks[process.Name] = max(s.peaks[process.Name], usage.PeakRSS)
		if process == s.cluster.Store.Process {
			s.note(process.Pid(), usage)
			if s.window != nil {
				s.window.memory = append(s.window.memory, usage.RSS)
			}
		}
	}
	if s.window != nil {
		s.window.disk = max(s.window.disk, disk)
	}
}

func (s *sampler) note(pid int, usage cluster.Usage) {
	if pid != s.pid {
		s.before += s.last
		s.pid = pid
	}
	s.last = usage.CPU
}

// storeCPU is the CPU time that all runs of the store have used until now; at a restart up to a second may be missing.
func (s *sampler) storeCPU() time.Duration {
	usage, err := s.cluster.Store.Usage()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.note(s.cluster.Store.Pid(), usage)
	}
	return s.before + s.last
}

// begin begins a window, in which no process may be restarted.
func (s *sampler) begin() {
	w := &window{begun: time.Now(), cpu: s.cpu(), busy: machineBusy()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window = w
}

func (s *sampler) end() *window {
	cpu := s.cpu()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.window
	s.window = nil
	w.duration = time.Since(w.begun)
	w.busy = machineBusy() - w.busy
	for name, before := range w.cpu {
		w.cpu[name] = cpu[name] - before
	}
	return w
}

func (s *sampler) cpu() map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, process := range s.cluster.Processes() {
		if usage, err := process.Usage(); err == nil {
			all[process.Name] = usage.CPU
		}
	}
	return all
}

// spent says what processes used since an earlier reading; of those that were restarted, since their start.
func (s *sampler) spent(earlier map[string]time.Duration) string {
	now := s.cpu()
	var b strings.Builder
	for _, process := range s.cluster.Processes() {
		used := now[process.Name]
		if used >= earlier[process.Name] {
			used -= earlier[process.Name]
		}
		fmt.Fprintf(&b, " %s %.1fs", process.Name, used.Seconds())
	}
	return b.String()
}

func (s *sampler) peak(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peaks[name]
}

// diskSize adds up the blocks that a directory's files occupy; files may come and go meanwhile.
func diskSize(dir string) int64 {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			size += blocks(info)
		}
		return nil
	})
	return size
}

// machineBusy is the time that all processors together were not idle, in seconds since the machine's start.
func machineBusy() float64 {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	var busy float64
	for n, field := range strings.Fields(line)[1:] {
		ticks, _ := strconv.ParseFloat(field, 64)
		// user, nice, system, (idle, iowait), irq, softirq, steal; guests are part of user.
		if n < 8 && n != 3 && n != 4 {
			busy += ticks / 100
		}
	}
	return busy
}
