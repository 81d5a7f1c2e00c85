/**
 * SQL over `messages m` and `applications p`: the channels `c` that may carry a message by today's rules,
 * connected or not (B4, D6). It ends in a WHERE clause, which may go on.
 */
export const FITTING_CHANNELS = `channel_group_members gm
                    JOIN channels c ON c.id = gm.channel_id AND c.active AND m.operator = ANY(c.operators)
                    JOIN suppliers s ON s.id = c.supplier_id AND s.active
                    JOIN filings f ON f.channel_id = c.id AND f.signature_id = m.signature_id AND f.active
                    JOIN signatures t ON t.id = f.signature_id AND t.status = 'approved'
                   WHERE gm.group_id = p.channel_group_id`;
