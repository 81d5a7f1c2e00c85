/** For queues in which each application has a line of its own. */

/**
 * SQL of a recursive common table: the applications that have a row in `table` under `condition`, each found
 * by one step along an index that begins with the application, however many rows it has (C4, E3).
 */
export const applicationsWith = (name: string, table: string, condition: string): string =>
  `${name} AS (
     (SELECT application_id FROM ${table} WHERE ${condition} ORDER BY application_id LIMIT 1)
     UNION ALL
     SELECT further.application_id FROM ${name} CROSS JOIN LATERAL (
       SELECT application_id FROM ${table}
        WHERE ${condition} AND application_id > ${name}.application_id
        ORDER BY application_id LIMIT 1) further
   )`;
