;; Asks Jepsen's Kafka checker about histories, one after the other.
;;
;; Standard input: ops, one a line, as EDN (history/jepsen.py writes them); an empty line ends a
;; history. Standard output, for each history: a line of JSON for each error that the analysis
;; found, or for what ended it, then an empty line.
;;
;; `analysis` is all that is called: the checker around it draws pictures and says which errors it
;; tolerates. Version orders are inferred from offsets (:ww-deps), as in the tests of Redpanda.
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
  "One error of a class: which client, partition and records it is about. Of a step from one value
  to the next, `values` are these two; `skipped` is what lies between them."
  [class {:keys [key value values offset offsets op ops reader skipped]}]
  {:anomaly class
   :key     key
   :client  (:client (or op (last ops) reader))
   :values  (vec (or values (step key ops) (when value [value])))
   :offsets (vec (or offsets (when offset [offset])))
   :skipped (vec skipped)})

(defn unseen
  "One error for each record, where Jepsen has one for all."
  [{:keys [messages]}]
  (for [[k values] messages, v (sort values)]
    (told :unseen {:key k, :value v})))

(defn findings
  "All errors of a history."
  [ops]
  (try
    (let [errors (:errors (kafka/analysis (h/history ops) {:ww-deps true}))]
      (mapcat (fn [[class found]]
                (cond (= :unseen class)    (unseen found)
                      (sequential? found) (map (partial told class) found)
                      ; Elle's word that there is nothing to look for cycles in.
                      :else                [(told class nil)]))
              errors))
    (catch ExceptionInfo e
      ; What slingshot throws is either the data, or wrapped in it.
      (let [{:keys [type key value]} (or (:object (ex-data e)) (ex-data e))]
        [(told (or type :threw) {:key key, :value value})]))))

(defn -main []
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
