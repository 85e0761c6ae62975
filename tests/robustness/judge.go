package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
	"go.uber.org/zap"

	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
)

// patience is how long the search for a linearization may take. Upstream waits longer, for shorter histories.
const patience = 2 * time.Minute

// A search that did not end proves nothing, in either direction.
var errUndecided = errors.New("undecided")

// judge asks upstream's validators; a history that is not linearizable is drawn to the given page.
func judge(lg *zap.Logger, e evidence, p profile, page string) error {
	begun := time.Now()
	result, err := verdict(lg, e, p)
	if err != nil {
		if result.Linearization.Error() != nil && page != "" {
			porcupine.VisualizePath(result.Linearization.Model, result.Linearization.Info, page)
		}
		return err
	}
	// A validator that was skipped has no status, and that is no success.
	parts := []validate.Result{result.Assumptions, result.Linearization.Result, result.Watch, result.Serializable}
	for _, part := range parts {
		if part.Status != validate.Success {
			return fmt.Errorf("a validator did not run: %+v", result)
		}
	}
	fmt.Printf("  passed: linearizable, and watches and reads of the past agree with the disk; judged in %.1fs\n",
		time.Since(begun).Seconds())
	return nil
}

func verdict(lg *zap.Logger, e evidence, p profile) (result validate.RobustnessResult, err error) {
	// Some contradictions between watches and disk make the validators panic instead of answering.
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("the validators panicked: %v", panicked)
		}
	}()
	settled := e.settled()
	config := validate.Config{ExpectRevisionUnique: p.mix.ExpectUniqueRevision()}
	result = validate.ValidateAndReturnVisualize(lg, config, settled.reports, settled.persisted, patience)
	switch result.Linearization.Status {
	case validate.Timeout, validate.DeadlineExceeded:
		return result, fmt.Errorf("%w: no linearization was found or excluded in %s", errUndecided, patience)
	}
	return result, result.Error()
}

// prove falsifies a history that passed, in one way after the other; every one must be found.
func prove(lg *zap.Logger, e evidence, p profile) error {
	// A difference between watches and disk is printed at length by the validators; here it is no news.
	stdout := os.Stdout
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer nowhere.Close()
	for _, name := range falsificationNames() {
		falsified, err := falsify(e, name)
		if err != nil {
			return err
		}
		os.Stdout = nowhere
		_, found := verdict(lg, falsified, p)
		os.Stdout = stdout
		if found == nil {
			return fmt.Errorf("a falsified history passed: %s", name)
		}
		if errors.Is(found, errUndecided) {
			return fmt.Errorf("falsified by %s: %w", name, found)
		}
		fmt.Printf("  falsified, and found: %s: %.80s\n", name, found)
	}
	return nil
}

// keep saves what the validators were given.
func keep(lg *zap.Logger, home string, e evidence) {
	home = filepath.Join(home, "history")
	saved, err := report.NewTestReport(lg, home, nil, nil)
	if err == nil {
		saved.SetClientReports(e.reports)
		err = saved.SaveEtcdData()
	}
	if err == nil {
		err = keepPersisted(filepath.Join(home, "persisted.json"), e)
	}
	if err != nil {
		fmt.Printf("  the history could not be saved: %s\n", err)
	}
}

// load reads back what keep saved.
func load(home string) (e evidence, err error) {
	if e.reports, err = report.LoadClientReports(filepath.Join(home, "history")); err != nil {
		return e, err
	}
	file, err := os.Open(filepath.Join(home, "history", "persisted.json"))
	if err != nil {
		return e, err
	}
	defer file.Close()
	for lines := json.NewDecoder(file); lines.More(); {
		var request model.EtcdRequest
		if err := lines.Decode(&request); err != nil {
			return e, err
		}
		e.persisted = append(e.persisted, request)
	}
	return e, nil
}

func keepPersisted(path string, e evidence) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	for _, request := range e.persisted {
		if err := lines.Encode(request); err != nil {
			return err
		}
	}
	return nil
}
