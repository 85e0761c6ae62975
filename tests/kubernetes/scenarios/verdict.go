package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"vetch.invalid/trials/cluster"
)

// What no API server may say.
var alarming = regexp.MustCompile(`^panic:|^fatal error:|^F\d{4} |Observed a panic|Cache consistency check failed`)

// What no store may say, in etcd's format of logs or outside of it.
var troubled = regexp.MustCompile(`"level":"(error|dpanic|panic|fatal)"|^panic:|^fatal error:|panicked at`)

// What a controller says when it ends because it could not renew its lease for ten seconds, as it should.
var resigned = regexp.MustCompile(`(?i)leaderelection lost`)

// What etcd calls an error when it is asked to end.
var harmless = regexp.MustCompile(`(?i)"error":"[^"]*(server closed|closed network connection)`)

// verdict looks back: which processes ended by themselves, and what is in the logs that must not be.
func verdict(c *cluster.Cluster) []string {
	var wrong []string
	for _, process := range c.Processes() {
		deaths := process.Deaths()
		lost, err := matching(process.Log, resigned)
		if err != nil && !os.IsNotExist(err) {
			wrong = append(wrong, err.Error())
		}
		if len(lost) > 0 {
			say("%s lost its lease %d times and was started again; the machine is busy", process.Name, len(lost))
		}
		wrong = append(wrong, deaths[min(len(lost), len(deaths)):]...)
	}
	logs, err := filepath.Glob(filepath.Join(c.Logs(), "*.log"))
	if err != nil {
		return append(wrong, err.Error())
	}
	for _, log := range logs {
		pattern := alarming
		if strings.HasPrefix(filepath.Base(log), "store") {
			pattern = troubled
		}
		lines, err := matching(log, pattern)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for n, line := range lines {
			if n == 3 {
				wrong = append(wrong, fmt.Sprintf("%s: and %d more such lines", log, len(lines)-n))
				break
			}
			wrong = append(wrong, fmt.Sprintf("%s: %.300s", log, line))
		}
	}
	return wrong
}

func matching(path string, pattern *regexp.Regexp) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		if pattern.MatchString(scanner.Text()) && !harmless.MatchString(scanner.Text()) {
			lines = append(lines, scanner.Text())
		}
	}
	return lines, scanner.Err()
}
