package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// machine says on what a run took place.
func machine(dir string) string {
	fileSystem := "an unknown file system"
	if out, err := exec.Command("df", "--output=fstype", dir).Output(); err == nil {
		fileSystem = strings.TrimSpace(strings.TrimPrefix(string(out), "Type"))
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d processors (%s), %d GiB of memory, Linux %s, data on %s", runtime.NumCPU(),
		field("/proc/cpuinfo", "model name"), memory(), strings.TrimSpace(string(kernel)), fileSystem)
}

// field is the first value of a name in a file of the kernel's.
func field(path, name string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memory() int64 {
	var kib int64
	_, _ = fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kib)
	return (kib + 1<<19) >> 20
}

// version is the line by which a program names its own version, or the first that it prints.
func version(binary, name string) string {
	out, err := exec.Command(binary, "--version").Output()
	if err != nil {
		return "unknown"
	}
	lines := strings.Split(string(out), "\n")
	for _, line := range lines {
		if strings.HasPrefix(strings.ToLower(line), name) {
			return line
		}
	}
	return lines[0]
}

// blocks is the space that a file occupies, which for files that were made large at once is not their length.
func blocks(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}
