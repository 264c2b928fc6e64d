(ns jepsen.checker.perf
  "No plots are drawn.")

(defn preamble [& _])

(defn with-range [& _])

(defn plot! [& _])
