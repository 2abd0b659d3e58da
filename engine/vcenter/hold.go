package main

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// holds keeps calls waiting before anything is done, so that a run can be ended exactly there. A call that was held is
// never carried out: when it is let go, whoever made it may be gone, and a late change would meet the next run.
type holds struct {
	mu    sync.Mutex
	gates map[string]*gate // by the call's name
}

// gate is where the calls of one name wait.
type gate struct {
	waiting int
	opened  chan struct{}
}

var held = &holds{gates: map[string]*gate{}}

type handler func(*simulator.Context, *simulator.Method) (mo.Reference, types.BaseMethodFault)

// after puts the gates behind a handler: what that counts has arrived.
func (h *holds) after(inner handler) handler {
	return func(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		object, fault := inner(ctx, method)
		if fault == nil && h.waited(method.Name) {
			return nil, new(types.RequestCanceled)
		}
		return object, fault
	}
}

// waited returns at once, with false, where nobody has asked to hold such calls.
func (h *holds) waited(name string) bool {
	h.mu.Lock()
	at := h.gates[name]
	if at != nil {
		at.waiting++
	}
	h.mu.Unlock()
	if at == nil {
		return false
	}
	<-at.opened
	return true
}

// serve adds the routes by which calls are held and let go, and how many wait is told.
func (h *holds) serve(routes *http.ServeMux, model *simulator.Model) {
	routes.HandleFunc("PUT /holds/{method}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("method")
		if err := checkMethod(model.Map(), name); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.gates[name] == nil {
			h.gates[name] = &gate{opened: make(chan struct{})}
		}
	})
	routes.HandleFunc("GET /holds", func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		waiting := map[string]int{}
		for name, at := range h.gates {
			waiting[name] = at.waiting
		}
		_ = json.NewEncoder(w).Encode(waiting)
	})
	routes.HandleFunc("DELETE /holds", func(http.ResponseWriter, *http.Request) { h.open() })
}

// open lets all calls go and holds no more.
func (h *holds) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, at := range h.gates {
		close(at.opened)
		delete(h.gates, name)
	}
}
