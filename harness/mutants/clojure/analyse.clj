;; Asks Jepsen's Kafka checker about histories, one after the other.
;;
;; Standard input: ops, one a line, as EDN (history/jepsen.py writes them); an empty line ends a
;; history. Standard output: an empty line when all is loaded. Then for each history a line of JSON
;; for each error that the analysis found, or for what ended it, and an empty line.
;;
;; Only `analysis` and `allowed-error-types` are called, because the checker around them draws
;; pictures. Version orders are inferred from offsets (:ww-deps), as in the tests of Redpanda.
(ns analyse
  (:require [clojure.edn :as edn]
            [clojure.string :as str]
            [jepsen.history :as h]
            [jepsen.tests.kafka :as kafka])
  (:import (clojure.lang ExceptionInfo)))

(defn json
  "Of nil, numbers, keywords, strings of plain characters, and maps and sequences of these."
  [x]
  (cond (nil? x)        "null"
        (map? x)        (str "{" (str/join "," (for [[k v] x] (str (json k) ":" (json v)))) "}")
        (keyword? x)    (pr-str (name x))
        (sequential? x) (str "[" (str/join "," (map json x)) "]")
        :else           (pr-str x)))

(defn step
  "The values between which an error found a step from one poll to the next."
  [key [from to]]
  (when (= :poll (:f to))
    [(last (get (kafka/op-reads from) key)) (first (get (kafka/op-reads to) key))]))

(defn told
  "One error of a class: its effect on :valid?, and the client, partition and records that it is
  about. Of a step from one value to the next, `values` are these two; `skipped` is what lies
  between them."
  [class effect {:keys [key value values offset offsets op ops reader skipped]}]
  {:anomaly class
   :effect  effect
   :key     key
   :client  (:client (or op (last ops) reader))
   :values  (vec (or values (step key ops) (when value [value])))
   :offsets (vec (or offsets (when offset [offset])))
   :skipped (vec skipped)})

(defn unseen
  "One error for each record, where Jepsen has one for all."
  [effect {:keys [messages]}]
  (for [[k values] messages, v (sort values)]
    (told :unseen effect {:key k, :value v})))

(defn findings
  "All errors of a history."
  [ops]
  (try
    (let [options {:ww-deps true}
          errors  (:errors (kafka/analysis (h/history ops) options))
          allowed (kafka/allowed-error-types (assoc options :sub-via (set (map :f ops))))]
      (mapcat (fn [[class found]]
                ; G0 and G1c are tolerated, so a search for them that took too long on a busy
                ; machine hides no error.
                (let [tolerated (conj allowed :cycle-search-timeout)
                      effect    (if (tolerated class) :allowed :invalid)]
                  (cond (= :unseen class)   (unseen effect found)
                        (sequential? found) (map (partial told class effect) found)
                        ; Elle's word that there is nothing to look for cycles in.
                        :else               [(told class effect nil)])))
              errors))
    (catch ExceptionInfo e
      ; What slingshot throws is either the data, or wrapped in it.
      (let [{:keys [type key value]} (or (:object (ex-data e)) (ex-data e))]
        [(told (or type :threw) :unknown {:key key, :value value})]))))

(defn -main []
  (println)
  (flush)
  (loop [ops []]
    (when-let [line (read-line)]
      (if (= "" line)
        (do (doseq [finding (findings ops)] (println (json finding)))
            (println)
            (flush)
            (recur []))
        (recur (conj ops (edn/read-string line))))))
  (shutdown-agents))

(-main)
