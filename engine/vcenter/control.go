package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// What may be wrong with the vCenter on request.
const (
	faultExpire = "expire" // ends all sessions at once, or the one that makes a certain call, which is refused
	faultSlow   = "slow"   // lets a call, or the task that it begins, take its time
	faultRefuse = "refuse" // refuses a call for want of a privilege

	faultMeanwhile = "meanwhile" // lets somebody else be quicker than a call
	faultUntold    = "untold"    // makes the next copy of a VM, and tells of a timeout
	faultCustomise = "customise" // lets the customisation of the next guest that starts fail
)

const taskSuffix = "_Task"

// fault is one thing that goes wrong.
type fault struct {
	Kind      string  `json:"kind"`
	Method    string  `json:"method,omitempty"`
	Privilege string  `json:"privilege,omitempty"`
	Seconds   float64 `json:"seconds,omitempty"`
	Times     int     `json:"times,omitempty"` // calls that it meets; 0: all until it is cleared
	Does      *deed   `json:"does,omitempty"`  // what somebody else does meanwhile
	met       int
	spent     bool
}

// troubles is what goes wrong at the moment, and a count of all calls by name.
type troubles struct {
	mu       sync.Mutex
	active   []*fault
	calls    map[string]int
	sessions map[string]bool // by key: those that have made a call
	expired  map[string]bool
	model    *simulator.Model
}

var trouble = &troubles{calls: map[string]int{}, sessions: map[string]bool{}, expired: map[string]bool{}}

// meet counts a call, and gives the fault that it meets.
func (t *troubles) meet(ctx *simulator.Context, method *simulator.Method) types.BaseMethodFault {
	t.mu.Lock()
	t.calls[method.Name]++
	ended := ctx.Session != nil && t.expired[ctx.Session.Key]
	if ended {
		ctx.Session = nil // whoever logs in anew is no session of before
	} else if ctx.Session != nil {
		t.sessions[ctx.Session.Key] = true
	}
	var wait time.Duration
	var refused, quicker *fault
	expires := false
	for _, one := range t.active {
		if one.Method != method.Name || one.spent {
			continue
		}
		switch one.Kind {
		case faultSlow:
			wait = time.Duration(one.Seconds * float64(time.Second))
		case faultRefuse:
			refused = one
		case faultExpire:
			expires = true
		case faultMeanwhile:
			quicker = one
		default:
			continue
		}
		one.meets()
	}
	if expires && ctx.Session != nil {
		t.expired[ctx.Session.Key] = true
		ended = true
	}
	t.mu.Unlock()
	if quicker != nil && ctx.Session != nil {
		if err := quicker.Does.do(t, ctx); err != nil {
			log.Printf("before %s: %s", method.Name, err)
		}
	}
	if strings.HasSuffix(method.Name, taskSuffix) {
		slowDown(wait)
	} else {
		time.Sleep(wait)
	}
	switch {
	case ended && !slices.Contains(openToAll, method.Name):
		denied := types.NoPermission{Object: &method.This, PrivilegeId: "System.View"}
		return &types.NotAuthenticated{NoPermission: denied}
	case refused != nil:
		return &types.NoPermission{Object: &method.This, PrivilegeId: refused.Privilege}
	}
	return nil
}

func (f *fault) meets() {
	f.met++
	f.spent = f.Times > 0 && f.met >= f.Times
}

// takes tells whether something that meets no single method goes wrong now.
func (t *troubles) takes(kind string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.active {
		if one.Kind == kind && !one.spent {
			one.meets()
			return true
		}
	}
	return false
}

// slowDown lets the task that the next call begins run for a while; until then its object can be read.
func slowDown(wait time.Duration) {
	simulator.TaskDelay = simulator.DelayConfig{}
	if wait > 0 {
		simulator.TaskDelay.Delay = int(wait.Milliseconds())
		simulator.TaskDelay.MethodDelay = map[string]int{"LockHandoff": 0}
	}
}

// openToAll is what a vCenter answers without a session.
var openToAll = []string{"Login", "Logout", "RetrieveServiceContent"}

func (t *troubles) add(one *fault) error {
	needs := map[string]bool{
		faultExpire: true,
		faultSlow:   one.Method != "" && one.Seconds > 0,
		faultRefuse: one.Method != "" && one.Privilege != "",

		faultMeanwhile: one.Method != "" && one.Does != nil,
		faultUntold:    true,
		faultCustomise: true,
	}
	if enough, known := needs[one.Kind]; !known || !enough {
		return fmt.Errorf("%q wants a kind with what belongs to it: expire (at once, or at a method); slow, method, seconds; "+
			"refuse, method, privilege; meanwhile, method, does; untold; customise", one.Kind)
	}
	if one.Method != "" {
		if err := checkMethod(t.model.Map(), one.Method); err != nil {
			return err
		}
	}
	if one.Privilege != "" {
		if err := checkPrivilege(t.model.Map(), one.Privilege); err != nil {
			return err
		}
	}
	if one.Does != nil && one.Does.Host != nil { // at the moment of the call nobody would hear why not
		if _, err := t.changeable(one.Does.Host); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.Kind == faultExpire && one.Method == "" {
		t.expire()
		return nil
	}
	t.active = append(t.active, one)
	return nil
}

// expire ends all sessions that have made a call; whoever calls it holds the lock.
func (t *troubles) expire() {
	for key := range t.sessions {
		t.expired[key] = true
	}
	clear(t.sessions)
}

// serveControl listens on a unix socket, which only our user may open.
func serveControl(path string, model *simulator.Model) error {
	trouble.model = model
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /calls", func(w http.ResponseWriter, _ *http.Request) {
		trouble.mu.Lock()
		defer trouble.mu.Unlock()
		_ = json.NewEncoder(w).Encode(trouble.calls)
	})
	routes.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) {
		trouble.mu.Lock()
		defer trouble.mu.Unlock()
		_ = json.NewEncoder(w).Encode(trouble.active)
	})
	routes.HandleFunc("DELETE /faults", func(http.ResponseWriter, *http.Request) {
		trouble.mu.Lock()
		defer trouble.mu.Unlock()
		trouble.active = nil
	})
	routes.HandleFunc("GET /guests", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(running(model))
	})
	routes.HandleFunc("POST /faults", taking(trouble.add))
	routes.HandleFunc("POST /hosts", taking(trouble.change))
	held.serve(routes, model)
	go func() { _ = http.Serve(listener, routes) }()
	return nil
}

// taking decodes a request, strictly: a misspelled field must not become a fault that never comes.
func taking[T any](act func(*T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := new(T)
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(given)
		if err == nil {
			err = act(given)
		}
		if err != nil {
			http.Error(w, strings.TrimSpace(err.Error()), http.StatusBadRequest)
		}
	}
}
