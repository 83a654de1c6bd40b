/* The lease protocol, with everything that may go wrong between two of its steps.
 *
 * Each call of the store is one atomic step, as each Lua function is. Around the calls replies are
 * lost, calls are repeated and arrive late, workers crash, or stop for longer than a lease and wake,
 * the store is away for longer than a lease, and a replica without the newest writes takes over.
 * README.md maps each part of the model to the law.
 *
 *   Faults:   LATE CRASH STOP AWAY FAILOVER CLOCK_BACK (the new primary's clock is behind)
 *   Modes:    EARLY (each job is acked before it runs), SYNC (min_replicas)
 *   Left out: NO_FENCE NO_OWNER NO_GROWTH NO_NUMBERS NO_GAP NO_LIMIT NO_EARLY_MARK NO_CONFIRM
 *             NO_RENEWAL (of what a repeated claim brings)
 *
 * No step decides by a name with g_: only assertions read these.
 */
#define JOBS 2
#define WORKERS 2
#define LIMIT 1
#ifndef GRANTS
#define GRANTS 3 /* after so many leases no worker claims */
#endif
#define NOTHING 3

#ifdef NO_FENCE
#define IS_FENCE(j, f) true
#else
#define IS_FENCE(j, f) (db.fence[j] == f)
#endif
#ifdef NO_OWNER
#define IS_OWNER(j, w) true
#else
#define IS_OWNER(j, w) (db.owner[j] == w)
#endif
#ifdef NO_LIMIT
#define HAS_ROOM true
#else
#define HAS_ROOM ((db.state[0] == LEASED) + (db.state[1] == LEASED) < LIMIT)
#endif
#ifdef NO_GROWTH
#define FENCE_BASE db.last_fence
#else
#define FENCE_BASE (db.last_fence > clock -> db.last_fence : clock)
#endif
#ifdef NO_NUMBERS
#define IS_NEW(w, n) true
#else
#define IS_NEW(w, n) (n > db.number[w])
#endif
#ifdef NO_GAP
#define MAY_REAP true
#else
#define MAY_REAP (!spares)
#endif
#ifdef NO_EARLY_MARK
#define IS_EARLY(j) false
#else
#define IS_EARLY(j) db.early[j]
#endif
#ifdef CRASH
#define MAY_CRASH \
  if \
  :: true \
  :: atomic { crashed[w] = true; g_runs_now[w] = false; held[w] = 0; goto crash } \
  fi
#else
#define MAY_CRASH skip
#endif
#define IS_OVER(j) (db.state[j] == DONE || db.state[j] == LOST)
#define IS_RUNNABLE \
  ((db.state[0] == WAITING || db.state[1] == WAITING) && g_grants < GRANTS && HAS_ROOM)
#define CAN_CALL(w) (!stopped[w] && !is_away)
#define RENEWS(j) (!crashed[db.owner[j]] && !stopped[db.owner[j]] && held[db.owner[j]] == j + 1)

mtype = { WAITING, LEASED, DONE, LOST }

typedef Store {
  mtype state[JOBS];
  byte owner[JOBS], fence[JOBS];
  bit early[JOBS];
  byte last_fence;
  byte number[WORKERS], reply[WORKERS]; /* of each owner's last call */
  byte g_grant[JOBS]
};

Store db, replica, nothing;
byte clock; /* it moves with each lease */
bit ended[JOBS]; /* the time of the lease is over */
bit is_away, spares; /* no call arrives; the store came back less than a lease ago */
bit crashed[WORKERS], stopped[WORKERS];
byte held[WORKERS]; /* the job that a worker renews, plus one */
bit is_late[WORKERS]; /* a copy of a call is on its way */
byte late_number[WORKERS], late_job[WORKERS], late_fence[WORKERS], late_grant[WORKERS];

byte g_grants, g_highest[JOBS], g_highest_grant[JOBS], g_runs[JOBS], g_done_by[JOBS];
bit g_runs_now[WORKERS], g_slept[WORKERS], g_lost_writes, g_has_failed_over, g_outage[JOBS];

inline copy(to, from) {
  to.state[0] = from.state[0]; to.owner[0] = from.owner[0]; to.fence[0] = from.fence[0];
  to.state[1] = from.state[1]; to.owner[1] = from.owner[1]; to.fence[1] = from.fence[1];
  to.early[0] = from.early[0]; to.g_grant[0] = from.g_grant[0];
  to.early[1] = from.early[1]; to.g_grant[1] = from.g_grant[1];
  to.number[0] = from.number[0]; to.reply[0] = from.reply[0];
  to.number[1] = from.number[1]; to.reply[1] = from.reply[1];
  to.last_fence = from.last_fence
}

/* With min_replicas no reply comes before a replica has what the call wrote. */
#if defined(FAILOVER) && defined(SYNC) && !defined(NO_CONFIRM)
#define CONFIRM if :: !g_has_failed_over -> copy(replica, db) :: else fi
#else
#define CONFIRM skip
#endif

inline claim(w, n) {
  got = NOTHING;
  if
  :: IS_NEW(w, n) ->
    if
    :: IS_RUNNABLE ->
      got = (db.state[0] == WAITING -> 0 : 1);
      db.last_fence = FENCE_BASE + 1;
      clock++; g_grants++; db.g_grant[got] = g_grants;
      db.state[got] = LEASED; db.owner[got] = w; db.fence[got] = db.last_fence;
      db.early[got] = false; ended[got] = false; g_outage[got] = false
    :: else
    fi;
    db.number[w] = n; db.reply[w] = got
  :: else -> /* the same reply, less ended leases; an older call is refused */
    if
    :: n == db.number[w] && db.reply[w] != NOTHING ->
      if
      :: db.state[db.reply[w]] == LEASED && db.owner[db.reply[w]] == w -> got = db.reply[w]
      :: else
      fi
    :: else
    fi
  fi
}

inline ack(w, n, j, f, g, is_early) {
  is_done = false;
  if
  :: IS_NEW(w, n) ->
    if
    :: db.state[j] == LEASED && IS_FENCE(j, f) && IS_OWNER(j, w) ->
      assert(db.g_grant[j] == g); /* an owner ends its own lease, and no other one */
      is_done = true;
      if
      :: is_early -> db.early[j] = true
      :: else ->
        assert(g_runs[j] > 0); /* no job is over that has not run */
        db.state[j] = DONE; ended[j] = false; g_outage[j] = false
      fi
    :: else
    fi;
    db.number[w] = n; db.reply[w] = (is_done -> j : NOTHING)
  :: else -> is_done = (n == db.number[w] && db.reply[w] == j)
  fi
}

inline renew(w) {
#ifdef NO_RENEWAL
  skip
#else
  atomic {
    CAN_CALL(w) ->
    if
    :: db.state[job] == LEASED && db.owner[job] == w && db.fence[job] == fence -> ended[job] = false
    :: else -> got = NOTHING; held[w] = 0
    fi
  }
#endif
}

/* A copy of this call stays on its way, unless another one does. */
inline remember(w, n, j, f, g) {
#ifdef LATE
  if
  :: !is_late[w] ->
    is_late[w] = true; late_number[w] = n; late_job[w] = j; late_fence[w] = f; late_grant[w] = g
  :: true
  fi
#else
  skip
#endif
}

/* A system outside keeps the highest fence of each job, and refuses lower ones. */
inline effect(j, f, g) {
  if
  :: f >= g_highest[j] ->
#ifndef CLOCK_BACK
    assert(f > g_highest[j] || g_highest_grant[j] == g); /* no fence is given twice */
#endif
    g_highest[j] = f; g_highest_grant[j] = g
  :: else
  fi
}

inline begin_run(w, j) {
  g_runs[j]++; g_runs_now[w] = true;
#ifdef EARLY
  assert(g_runs[j] == 1 || g_lost_writes); /* what was acked early runs once */
#endif
  assert((g_runs_now[0] && !g_slept[0]) + (g_runs_now[1] && !g_slept[1]) <= LIMIT || g_lost_writes)
}

proctype Worker(byte w) {
  byte n, job, fence, grant, got = NOTHING;
  bit is_done, is_again;
end:
  do
  :: atomic {
      CAN_CALL(w) && IS_RUNNABLE -> /* it is woken */
      n++; g_slept[w] = false
    };
    do /* until a reply comes the call is repeated under its number */
    :: atomic {
        CAN_CALL(w) -> d_step { claim(w, n) };
        remember(w, n, NOTHING, 0, 0);
        if
        :: d_step {
            CONFIRM;
            if
            :: got != NOTHING ->
              job = got; fence = db.fence[job]; grant = db.g_grant[job]; held[w] = job + 1
            :: else
            fi
          };
          break
        :: is_again = true /* the reply is lost */
        fi
      };
      MAY_CRASH
    od;
    if /* what a repeated call brought may be about to end */
    :: is_again && got != NOTHING -> renew(w)
    :: else
    fi;
    is_again = false;
    if
    :: got == NOTHING
    :: else ->
      MAY_CRASH;
#ifdef EARLY
      n++;
      do
      :: atomic {
          CAN_CALL(w) -> d_step { ack(w, n, job, fence, grant, true) };
          remember(w, n, job, fence, grant);
          if
          :: d_step { CONFIRM }; break
          :: true
          fi
        };
        MAY_CRASH
      od;
      if
      :: !is_done -> assert(g_slept[w] || g_lost_writes); goto ended_run
      :: else
      fi;
      MAY_CRASH;
#endif
      d_step { !stopped[w] -> begin_run(w, job) };
      MAY_CRASH;
      d_step { !stopped[w] -> effect(job, fence, grant) };
      MAY_CRASH;
      d_step { !stopped[w] -> g_runs_now[w] = false; n++ };
      do
      :: atomic {
          CAN_CALL(w) -> d_step { ack(w, n, job, fence, grant, false) };
          remember(w, n, job, fence, grant);
          if
          :: d_step { CONFIRM }; break
          :: true
          fi
        };
        MAY_CRASH
      od;
      atomic {
        if
        :: is_done -> /* one run of a job is told that it counts */
          assert(g_done_by[job] == 0 || g_done_by[job] == grant || g_lost_writes);
          g_done_by[job] = grant
        :: else -> assert(g_slept[w] || g_lost_writes) /* no renewed lease is lost */
        fi
      };
ended_run:
      atomic { job = 0; fence = 0; grant = 0; is_done = false; got = NOTHING; held[w] = 0 }
    fi
  od;
crash:
  atomic {
    n = 0; job = 0; fence = 0; grant = 0; got = NOTHING; is_done = false; is_again = false
  }
}

inline deliver(w) {
  is_late[w] = false;
  if
  :: late_job[w] == NOTHING -> claim(w, late_number[w])
  :: else -> ack(w, late_number[w], late_job[w], late_fence[w], late_grant[w], false)
  fi;
  late_number[w] = 0; late_job[w] = 0; late_fence[w] = 0; late_grant[w] = 0;
  got = 0; is_done = false
}

#ifdef LATE
/* A copy of a call that was sent arrives some time later. */
proctype Network() {
  byte got;
  bit is_done;
end:
  do
  :: d_step { !is_away && is_late[0] -> deliver(0) }
  :: d_step { !is_away && is_late[1] -> deliver(1) }
  od
}
#endif

#ifdef STOP
/* Each worker stops once for longer than a lease, and wakes. */
proctype Stop(byte w) {
end:
  d_step { !crashed[w] -> stopped[w] = true; g_slept[w] = true };
  stopped[w] = false
}
#endif

#define IS_UNLIKE(j) (db.state[j] == LEASED && ended[j] == RENEWS(j))

/* A lease's time passes: a worker that lives, is awake and knows of a lease renews it. */
inline pass(j) {
  if
  :: db.state[j] == LEASED -> ended[j] = !RENEWS(j)
  :: else -> ended[j] = false
  fi;
  g_outage[j] = false
}

inline reap(j) {
  assert(!g_outage[j] || !RENEWS(j)); /* an outage ends no lease of a worker that lives */
  db.state[j] = (IS_EARLY(j) -> LOST : WAITING);
  ended[j] = false; g_outage[j] = false
}

proctype Time() {
end:
  do
  :: d_step {
      !is_away && (spares || IS_UNLIKE(0) || IS_UNLIKE(1)) ->
      pass(0); pass(1); spares = false
    }
  :: d_step { !is_away && MAY_REAP && ended[0] && db.state[0] == LEASED -> reap(0) }
  :: d_step { !is_away && MAY_REAP && ended[1] && db.state[1] == LEASED -> reap(1) }
  od
}

#ifdef AWAY
proctype Outage() {
  is_away = true;
  d_step {
    is_away = false; spares = true;
    ended[0] = true; ended[1] = true; g_outage[0] = true; g_outage[1] = true
  }
}
#endif

#ifdef FAILOVER
/* The replica's newest state is that of any moment, or with SYNC of a later confirmation. */
proctype Failover() {
  d_step { copy(replica, db) };
  d_step {
    g_has_failed_over = true;
#ifndef SYNC
    g_lost_writes = true;
#endif
#ifdef CLOCK_BACK
    clock = 0;
#endif
    copy(db, replica); copy(replica, nothing)
  }
}
#endif

init {
  atomic {
    db.state[0] = WAITING; db.state[1] = WAITING; db.reply[0] = NOTHING; db.reply[1] = NOTHING;
    run Worker(0); run Worker(1); run Time();
#ifdef LATE
    run Network();
#endif
#ifdef STOP
    run Stop(0); run Stop(1);
#endif
#ifdef AWAY
    run Outage();
#endif
#ifdef FAILOVER
    run Failover();
#endif
  }
  /* No job is lost: where nothing goes on, all are over, no lease is left, or no worker lives. */
  timeout ->
    assert((IS_OVER(0) && IS_OVER(1)) || g_grants == GRANTS || (crashed[0] && crashed[1]))
}
