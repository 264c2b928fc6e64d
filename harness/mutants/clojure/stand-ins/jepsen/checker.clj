(ns jepsen.checker
  "What the workload's checker implements. The checkers of other workloads, Knossos among them, are
  not loaded.")

(defprotocol Checker
  (check [checker test history opts]))

(defn stats [])
